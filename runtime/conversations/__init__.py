"""Messages between agents, the conversations that they stand in, and what agents offer each other (IAE 3.4).

What an agent says in a message is a claim: it grants nothing, and no rule of the gate reads it.
"""
