//! The result of an export.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// The files, relative to `out`; a format with a single file has an empty path.
    pub files: Vec<PathBuf>,
    /// Number of events in the files, as the format counts them: slices, rows, lines.
    pub events: u64,
    /// The part of `events` in tables that no rank filter applies to.
    #[serde(skip)]
    pub described: u64,
    pub left_out: Vec<LeftOut>,
}

/// Events left out for one reason. Events that the filter excludes are not listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftOut {
    pub events: u64,
    pub reason: String,
}

impl Outcome {
    /// The number of events that the filter matches, including those that the format cannot represent.
    pub fn matched(&self) -> u64 {
        self.events.saturating_sub(self.described) + self.left_out.iter().map(|it| it.events).sum::<u64>()
    }

    pub fn leave_out(&mut self, events: u64, reason: &str) {
        if events > 0 {
            self.left_out.push(LeftOut { events, reason: reason.to_owned() });
        }
    }
}
