//! Tests the tool as a process, one module per verb, with the built binary.

mod tool {
    mod aligned;
    mod check;
    mod diff;
    mod export;
    mod finalize;
    mod fixture;
    mod flight_recorder;
    mod foreign;
    mod hang;
    mod hostile;
    mod info;
    mod jobs;
    mod launches;
    mod made_up;
    mod merge;
    mod names;
    mod nccl;
    mod recording;
    mod reference;
    mod report;
    mod rules;
    mod run;
    mod score_p;
    mod stats;
    mod support;
    mod top;
    mod watch;
}
