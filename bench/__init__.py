"""Speed, as ratios of figures measured side by side in one run (`make bench`)."""
