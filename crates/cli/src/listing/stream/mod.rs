//! Journals as streams of callbacks (`docs/REFERENCE.md` §10): JSON Lines that `plugin-host replay` reads.

mod callbacks;
mod minimal;

use anyhow::Result;
use clap::ValueEnum;

use super::output::Output;
use super::recording::Recording;
use super::value::json;
use callbacks::Line;
use minimal::Minimal;

/// Whose fields the lines have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Schema {
    /// All that was recorded, as `nccl-otf2 print --json` prints it
    #[default]
    Callbacks,
    /// Those of TU Dresden's minimal profiler (version 5 of NCCL's interface), for tools that read them
    Minimal,
}

/// Prints the streams of processes, in the order of time over all of them.
pub(crate) fn print(recordings: &[Recording], output: &mut Output) -> Result<()> {
    for (recording, line) in in_order(recordings) {
        if !output.line(&json(&line.fields(recording)))? {
            break;
        }
    }
    Ok(())
}

/// Gives the lines of a process; returns how many the schema does not have.
pub(crate) fn lines(recording: &Recording, schema: Schema, mut each: impl FnMut(&str) -> Result<()>) -> Result<u64> {
    let minimal = (schema == Schema::Minimal).then(|| Minimal::of(recording));
    let mut left_out = 0;
    for (recording, line) in in_order(std::slice::from_ref(recording)) {
        let fields = match &minimal {
            Some(minimal) => minimal.fields(&line),
            None => Some(line.fields(recording)),
        };
        match fields {
            Some(fields) => each(&json(&fields))?,
            None => left_out += 1,
        }
    }
    Ok(left_out)
}

fn in_order(recordings: &[Recording]) -> impl Iterator<Item = (&Recording, Line<'_>)> {
    let mut lines: Vec<(u64, &Recording, Line<'_>)> = Vec::new();
    for recording in recordings {
        let comms = recording.comms.iter().filter(|comm| comm.is_wanted);
        let own = comms
            .map(Line::Init)
            .chain(recording.states.iter().map(Line::State))
            .chain(recording.events.iter().map(Line::Event))
            .chain(recording.finalizes.iter().map(Line::Finalize))
            .chain(recording.gpu.iter().map(Line::Gpu));
        lines.extend(own.map(|line| {
            let after_ns = match line.written_ns() {
                u64::MAX => u64::MAX,
                ns => ns.saturating_sub(recording.begin_ns),
            };
            (after_ns, recording, line)
        }));
    }
    lines.sort_by_key(|(after_ns, ..)| *after_ns);
    lines.into_iter().map(|(_, recording, line)| (recording, line))
}
