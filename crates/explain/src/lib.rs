//! Explains an analysis: why a late rank is late, and the critical path of the job.
//!
//! ```text
//!  Trace, Analysis ─► hosts   when chosen operations were called and launched: read only for these
//!                      ├► why    the stage that delayed a late rank: call, launch, GPU, operation before
//!                      └► path   from the end of the job back through what each operation waited for
//! ```

#![forbid(unsafe_code)]

mod hosts;
mod path;
mod why;

use std::collections::BTreeSet;

use analysis::{Analysis, Filter, Trace};

use path::Planned;
use why::Reasons;

/// Gives late ranks and the causes about them their reasons. Calls and launches are read only if a rank is late.
pub fn add_reasons(trace: &Trace, analysis: &mut Analysis) -> otf2::Result<()> {
    add(trace, analysis, None)
}

/// [`add_reasons`], and the critical path of what the filter selects, if that has all operations that others waited
/// for. Calls and launches are read once.
pub fn add_reasons_and_path(trace: &Trace, analysis: &mut Analysis, filter: &Filter) -> otf2::Result<()> {
    add(trace, analysis, Planned::of(analysis, filter))
}

fn add(trace: &Trace, analysis: &mut Analysis, planned: Option<Planned>) -> otf2::Result<()> {
    let reasons = Reasons::of(analysis);
    let mut rows = BTreeSet::new();
    rows.extend(reasons.iter().flat_map(|it| &it.rows));
    rows.extend(planned.iter().flat_map(|it| &it.rows));
    let hosts = hosts::read(trace, &analysis.tables, &rows)?;
    if let Some(reasons) = reasons {
        reasons.add(trace, analysis, &hosts);
    }
    if let Some(planned) = planned {
        analysis.report.critical_path = Some(planned.path(trace, analysis, &hosts));
    }
    Ok(())
}
