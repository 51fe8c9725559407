"""Evidence packs: what one flow leaves for somebody who trusts nobody here, and the file that checks it."""
