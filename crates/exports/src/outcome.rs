//! What was exported.

use std::path::PathBuf;

use serde::Serialize;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// The files, relative to `out`; a format of one file has an empty path.
    pub files: Vec<PathBuf>,
    /// How many events are in them, as the format counts: slices, rows, lines.
    pub events: u64,
    /// How many of those are of tables that no filter of ranks cuts.
    #[serde(skip)]
    pub described: u64,
    pub left_out: Vec<LeftOut>,
}

/// What was left out for one reason. What the filter left out is not listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    pub events: u64,
    pub reason: String,
}

impl Outcome {
    /// How many events the filter matches, with those that the format cannot hold.
    pub fn matched(&self) -> u64 {
        self.events.saturating_sub(self.described) + self.left_out.iter().map(|it| it.events).sum::<u64>()
    }

    pub fn leave_out(&mut self, events: u64, reason: &str) {
        if events > 0 {
            self.left_out.push(LeftOut { events, reason: reason.to_owned() });
        }
    }
}
