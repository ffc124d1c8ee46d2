//! The page of two runs.

use std::path::Path;

use analysis::report::Outcome;
use anyhow::Result;
use serde::Serialize;

use crate::diff::comparison;
use crate::exit::Exit;
use crate::print;

use super::page::{self, DiffModel};
use super::{Request, tool, write};

/// What was made.
#[derive(Debug, Serialize)]
struct Summary {
    page: String,
    bytes: usize,
    outcome: Outcome,
    verdict: String,
}

/// Makes the page of the archive that is asked for and of another one.
pub(super) fn report(request: &Request, other: &Path) -> Result<Exit> {
    let comparison = comparison(&request.path, other, &request.select)?;
    let beside = Path::new(&comparison.runs[0].run.anchor).with_file_name("diff.html");
    let output = request.output.clone().unwrap_or(beside);
    let title = request.title.clone().unwrap_or_else(|| format!("{} and {}", request.path.display(), other.display()));
    let text = page::page(&DiffModel { title: &title, tool: &tool(), comparison: &comparison }, &[])?;
    write(&output, text.as_bytes())?;
    let summary = Summary {
        page: output.display().to_string(),
        bytes: text.len(),
        outcome: comparison.outcome,
        verdict: comparison.sentence,
    };
    if request.json {
        print::json(&summary)?;
    } else {
        let Summary { page, bytes, verdict, .. } = &summary;
        print::result(&format!("{verdict}\n\n{page}: {} kB\n", bytes.div_ceil(1000)))?;
    }
    Ok(Exit::Well)
}
