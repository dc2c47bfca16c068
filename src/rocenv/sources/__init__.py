"""Where bytes come from: one module for each kind of source."""
