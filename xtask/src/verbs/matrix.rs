//! `cargo xtask matrix`: releases of NCCL × ways to run them, each archive held against what was done.

mod cells;
mod judge;
mod kept;
mod memcheck;
mod request;
mod said;
mod table;
mod table_json;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::cache::{Cache, remove_folder};
use crate::cargo::{self, Profile};
use crate::failure::{Context as _, Failure, Result};
use crate::nccl;
use crate::packages::{self, COMPILER, LIBC_SYMBOLS, OTF2, OTF2_TOOLS, PYTHON, VALGRIND};
use crate::python::Python;
use crate::report;

use judge::{Bench, Run, Verdict};
use request::Request;
use table::{Outcome, Table};

/// Where runs leave what they write, under the target folder.
const FOLDER: &str = "matrix";
const PAGE: &str = "docs/RELEASES.md";
const BEGIN: &str = "<!-- matrix: written by cargo xtask matrix --write-docs -->\n";
const END: &str = "<!-- end matrix -->";

/// Runs the command.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let Some(request) = Request::parse(words)? else {
        return Ok(());
    };
    packages::ensure(&[OTF2, OTF2_TOOLS, PYTHON, COMPILER])?;
    if request.cells.iter().any(|cell| cell.memcheck) {
        packages::ensure(&[VALGRIND, LIBC_SYMBOLS])?;
    }
    let cache = Cache::open()?;
    let python = Python::ensure(&cache)?;
    let libraries = request
        .releases
        .iter()
        .map(|release| nccl::library(&cache, &python, release))
        .collect::<Result<Vec<PathBuf>>>()?;
    drop(cache);

    report::heading("build");
    cargo::build(
        Profile::Debug,
        &["nccl-profiler-otf2", "nccl-otf2", "nccl-host", "fake-gpu"],
    )?;
    let bench = Bench::set_up(python)?;

    report::heading("run");
    let started = Instant::now();
    let table = all(&request, &bench, &libraries)?;
    report::heading("the matrix");
    print!("{}", table.text());
    let (good, impossible, failed) = table.sums();
    report::fact(&format!(
        "{good} good, {impossible} not to be had, {failed} failed, in {}",
        report::seconds(started.elapsed())
    ));
    if let Some(file) = &request.json {
        std::fs::write(file, table.json()).or_fail(|| format!("write {}", file.display()))?;
        report::fact(&format!("wrote {}", file.display()));
    }
    if request.write_docs {
        write_page(&last_of_all()?)?;
    }
    if failed > 0 {
        return Err(Failure::wrong(format!(
            "{failed} runs failed; what they left is in {}",
            cargo::target()?.join(FOLDER).display()
        )));
    }
    Ok(())
}

/// All runs, several at once: most of a run is waiting for sockets.
fn all<'a>(request: &'a Request, bench: &Bench, libraries: &[PathBuf]) -> Result<Table<'a>> {
    let columns = request.releases.len();
    let folder = cargo::target()?.join(FOLDER);
    let tree = kept::tree();
    let next = AtomicUsize::new(0);
    // Release after release: its library, read once, stays in the page cache.
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let (column, row) = (number / request.cells.len(), number % request.cells.len());
            let Some(release) = request.releases.get(column) else {
                return done;
            };
            let cell = request.cells[row];
            let run = Run {
                cell,
                release,
                library: &libraries[column],
                folder: folder.join(release).join(cell.name),
            };
            let outcome = one(bench, &run, request.keep, &tree).and_then(|outcome| {
                kept::keep(&folder, release, cell, &outcome)?;
                Ok(outcome)
            });
            done.push((row * columns + column, outcome));
        }
    };
    let mut done = Vec::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..request.jobs).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            done.extend(
                worker
                    .join()
                    .map_err(|_| Failure::wrong("a run panicked"))?,
            );
        }
        Ok(())
    })?;
    done.sort_by_key(|(place, _)| *place);
    let mut verdicts = done.into_iter().map(|(_, verdict)| verdict);
    let mut rows = Vec::new();
    for cell in &request.cells {
        let row = verdicts
            .by_ref()
            .take(columns)
            .collect::<Result<Vec<Outcome>>>()?;
        rows.push((*cell, row));
    }
    Ok(Table {
        releases: &request.releases,
        rows,
    })
}

/// What became of every cell when it was last run, in this start or an earlier one.
fn last_of_all() -> Result<Table<'static>> {
    let folder = cargo::target()?.join(FOLDER);
    let releases: &'static [String] = Box::leak(Box::new(nccl::RELEASES.map(str::to_owned)));
    let rows = cells::CELLS.iter().map(|cell| {
        let row = releases.iter();
        let row = row.map(|release| kept::last(&folder, release, cell));
        (cell, row.collect())
    });
    Ok(Table {
        releases,
        rows: rows.collect(),
    })
}

fn one(bench: &Bench, run: &Run<'_>, keep: bool, tree: &str) -> Result<Outcome> {
    let (verdict, took) = bench.judge(run)?;
    let what = match &verdict {
        Verdict::Good { remarks, around } => {
            let star = if around.is_some() { "*" } else { "" };
            format!("ok{star} {}", remarks.join(" "))
                .trim_end()
                .to_owned()
        }
        Verdict::Impossible(why) => format!("not to be had: {why}"),
        Verdict::Failed(why) => format!("FAIL: {why}"),
        Verdict::NotRun => "not run".to_owned(),
    };
    report::fact(&format!(
        "{:8}{:16}{:>8}  {what}",
        run.release,
        run.cell.name,
        report::seconds(took)
    ));
    if !keep && matches!(verdict, Verdict::Good { .. }) {
        remove_folder(&run.folder)?;
    }
    Ok(Outcome {
        verdict,
        took,
        tree: tree.to_owned(),
    })
}

/// Puts the table between the two marks of the page.
fn write_page(table: &Table<'_>) -> Result<()> {
    let page = cargo::root().join(PAGE);
    let text = std::fs::read_to_string(&page).or_fail(|| format!("read {PAGE}"))?;
    let parts = text
        .split_once(BEGIN)
        .and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let Some((head, tail)) = parts else {
        return Err(Failure::wrong(format!(
            "{PAGE} has lost its marks `{}` and `{END}`",
            BEGIN.trim()
        )));
    };
    let text = format!("{head}{BEGIN}\n{}\n{END}{tail}", table.markdown());
    std::fs::write(&page, text).or_fail(|| format!("write {PAGE}"))?;
    report::fact(&format!("wrote {PAGE}"));
    Ok(())
}
