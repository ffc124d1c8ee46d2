//! The analysis shared by `stats`, `diff` and `report`.

use std::io;
use std::path::Path;

use analysis::baseline::Baseline;
use analysis::results::{Comparison, Report};
use analysis::{Analysis, Filter, Observed, Trace, compare};
use anyhow::{Context as _, Error, Result, anyhow};

use crate::archive;
use crate::place;
use crate::print;
use crate::progress::Bar;
use crate::select::Select;
use crate::verdict;

/// What a selection of ranks means.
pub(crate) const OF_ALL_RANKS: &str = "--rank chooses rows, counts and durations; the verdict, causes, channels, anomalies, \
    phases, steps and the waiting and skew in operations are of all ranks.";

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
    explained(trace, filter, bar, analysis::reasons::why::add_reasons)
}

/// Like [`of`], with the critical path, for which calls and launches are read.
pub(crate) fn with_path(trace: &Trace, filter: &Filter, bar: &Bar) -> Result<Analysis> {
    explained(trace, filter, bar, |trace, analysis| {
        analysis::reasons::why::add_reasons_and_path(trace, analysis, filter)
    })
}

fn explained(
    trace: &Trace,
    filter: &Filter,
    bar: &Bar,
    explain: impl FnOnce(&Trace, &mut Analysis) -> otf2::Result<()>,
) -> Result<Analysis> {
    let mut analysis = analysis::links::interfaces::analyse(trace, filter, bar).map_err(unreadable)?;
    explain(trace, &mut analysis).map_err(unreadable)?;
    verdict::put_first(trace, &mut analysis.report.verdict);
    Ok(analysis)
}

/// Adds the bus bandwidths of a baseline: an archive, or the output of nccl-tests.
pub(crate) fn add_baseline(report: &mut Report, path: &Path) -> Result<()> {
    const MOST_BYTES: u64 = 256 << 20;
    let shown = || path.display().to_string();
    let baseline = if path.is_dir() || place::is_archive(path) {
        let trace = archive::open_with_kinds(path)?;
        Baseline::of_report(&of(&trace, &Filter::default(), &Bar::new()).with_context(shown)?.report)
    } else {
        let text = path.canonicalize().and_then(|path| regular_files::read_to_string(&path, MOST_BYTES));
        let text = text.with_context(|| format!("cannot read {}", shown()))?;
        let refused = |why| anyhow!("{}: {why}; --baseline takes an archive or the output of nccl-tests", shown());
        Baseline::of_text(&text).map_err(refused)?
    };
    baseline.add_to(report, &shown());
    if report.operations.iter().all(|class| class.baseline.is_none()) {
        let sentence = report.verdict.basis.last().map_or("", String::as_str);
        print::note(format_args!("nothing of the baseline fits: {sentence}"));
    }
    Ok(())
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
