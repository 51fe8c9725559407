"""From a proposal to its verdict: `services.intake` is the whole story on one page.

`queries.gate_facts` is the one bridge into the gate, `services.judging` judges, `services.apply_verdict`
writes what follows, and `services.precondition_check` checks again right before a call.
"""
