"""Read-only queries of the console's pages: bounded, keyset-paged, tenant-scoped."""
