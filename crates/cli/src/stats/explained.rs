//! Why ranks are late, and the critical path.

use analysis::results::{PathPart, Report, Why};
use nccl_events::archive::path_of_ranges;

use super::cells::{communicator, is_wanted, link, of, rank, text, time, word};
use crate::sheet::{Cell, Sheet};
use crate::units;

pub(super) const NO_PATH: &str =
    "there is none: no operation has ended, or --comm or --function leaves out operations that it may go through";

/// For example "call 9.84 ms late, in step # > load".
pub(super) fn why(why: &Why) -> String {
    let Some((reason, later_ns)) = why.reason.zip(why.later_ns) else {
        return why.missing.as_ref().map_or_else(String::new, |missing| format!("unknown: {missing}"));
    };
    let phase = why.phase.as_ref().map(|phase| format!(", in {}", path_of_ranges(&phase.path)));
    format!("{} {} late{}", word(reason), units::time(later_ns), phase.unwrap_or_default())
}

pub(super) fn path(report: &Report, wanted: &[u32]) -> Sheet {
    let parts = report.critical_path.iter().flat_map(|path| &path.parts);
    let parts = parts.filter(|part| part.rank.is_none() || is_wanted(report, part.rank, wanted));
    let mut sheet = Sheet::of(
        "critical path: what the length of the run consists of",
        parts.map(|part| (report, part)),
        &[
            ("part", |(_, it)| text(word(it.kind))),
            ("rank", |(report, it)| of(it.rank, |number| text(rank(report, number)))),
            ("in", |(report, it)| text(place(report, it))),
            ("at_most", |(_, it)| time(it.ns)),
            ("share", |(_, it)| Cell::Share(it.share)),
            ("times", |(_, it)| Cell::Count(it.times)),
            ("communicator", |(report, it)| of(it.communicator, |number| text(communicator(report, number)))),
        ],
    );
    sheet.remark = report.critical_path.as_ref().map(|path| {
        format!(
            "{} Without a part the run is shorter by at_most; less if another path is nearly as long.",
            path.sentence
        )
    });
    sheet
}

/// The function and the link, or the ranges of the program.
fn place(report: &Report, part: &PathPart) -> String {
    let link = part.link.map(|key| link(report, &key));
    let phase = part.phase.as_ref().map(|it| format!("{:.0} % in {}", it.share * 100.0, path_of_ranges(&it.path)));
    part.function.clone().into_iter().chain(link).chain(phase).collect::<Vec<_>>().join(", ")
}
