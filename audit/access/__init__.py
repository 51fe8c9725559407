"""Who may see and do what: roles, the guards of views, and the check that an open socket's session holds."""
