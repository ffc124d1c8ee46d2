//! The tool as a process: one module per verb, all on the built binary.

mod tool {
    mod check;
    mod finalize;
    mod fixture;
    mod hang;
    mod info;
    mod recording;
    mod rules;
    mod run;
    mod support;
}
