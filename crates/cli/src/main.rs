//! The `nccl-otf2` command.

fn main() {}
