//! The analysis shared by `stats`, `diff` and `report`.

use std::io;
use std::path::Path;

use analysis::report::{Comparison, Report};
use analysis::{Analysis, Filter, Observed, Trace, analyse, compare};
use anyhow::{Context as _, Error, Result};

use crate::archive;
use crate::progress::Bar;
use crate::select::Select;
use crate::verdict;

/// What a selection of ranks means.
pub(crate) const OF_ALL_RANKS: &str = "--rank chooses rows, counts and durations; the verdict, causes, channels, anomalies \
    and the waiting and skew in operations are of all ranks.";

/// The error for an archive that opens but cannot be analysed.
pub(crate) fn unreadable(error: otf2::Error) -> Error {
    let is_refused = |source: &io::Error| source.kind() == io::ErrorKind::PermissionDenied;
    let context = match &error {
        otf2::Error::Io { source, .. } if is_refused(source) => "cannot read the archive",
        _ => "the archive is damaged, `nccl-otf2 check` says more",
    };
    Error::new(error).context(context)
}

/// Analyses an archive. A verdict on a hang, if there is one, comes first.
pub(crate) fn of(trace: &Trace, filter: &Filter, bar: &Bar) -> Result<Analysis> {
    let mut analysis = analyse(trace, filter, bar).map_err(unreadable)?;
    verdict::put_first(trace, &mut analysis.report.verdict);
    Ok(analysis)
}

/// The number of operations that match the filter; 1 if the archive has none at all.
pub(crate) fn matched(report: &Report) -> u64 {
    if report.run.operations == 0 { 1 } else { report.operations.iter().map(|class| class.count).sum() }
}

/// Compares two archives. They are read one after the other, so memory holds the tables of only one.
pub(crate) fn comparison(a: &Path, b: &Path, select: &Select) -> Result<Comparison> {
    Ok(compare(&observe(a, select)?, &observe(b, select)?))
}

fn observe(path: &Path, select: &Select) -> Result<Observed> {
    let trace = archive::open_with_kinds(path)?;
    let shown = || path.display().to_string();
    let filter = select.filter(&trace).with_context(shown)?;
    let analysis = of(&trace, &filter, &Bar::new()).with_context(shown)?;
    select.refuse_nothing(&trace, matched(&analysis.report)).with_context(shown)?;
    Ok(Observed::of(&trace, &analysis.tables, &analysis.instances, &analysis.report, &filter))
}
