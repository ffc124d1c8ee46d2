//! The project's own commands: `cargo xtask demo` and `cargo xtask test`.

fn main() {}
