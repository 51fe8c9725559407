"""What rules and the recommender say before a proposal: rule outputs and decision packages. Advice only."""
