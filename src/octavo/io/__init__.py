"""What storage does at each request size and pattern: `octavo io`. The engine is crates/octavo-core/src/io_engine."""
