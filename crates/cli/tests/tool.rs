//! The tool as a process: one module per verb, all on the built binary.

mod tool {
    mod run;
    mod support;
}
