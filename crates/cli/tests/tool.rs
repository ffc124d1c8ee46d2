//! The tool as a process: one module per verb, all on the built binary.

mod tool {
    mod check;
    mod export;
    mod finalize;
    mod fixture;
    mod hang;
    mod info;
    mod merge;
    mod recording;
    mod rules;
    mod run;
    mod score_p;
    mod support;
}
