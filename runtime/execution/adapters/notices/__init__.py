"""How a notice leaves this machine: as a signed webhook, or through apprise in a process of its own."""
