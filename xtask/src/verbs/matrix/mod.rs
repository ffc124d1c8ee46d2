//! `cargo xtask matrix`: releases of NCCL × ways to run them, each archive checked against what was done.

mod cells;
mod judge;
mod memcheck;
mod table;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};

use crate::cache;
use crate::cargo::{self, Tools};
use crate::docs;
use crate::nccl;
use crate::packages::{self, LIBC_SYMBOLS, VALGRIND};
use crate::process::heading;
use crate::python::Python;

use cells::{CELLS, Cell};
use judge::{Bench, Run};
use table::{Outcome, Table, Verdict};

/// Run many NCCL releases in many configurations and verify each archive
///
/// docs/RELEASES.md says what is held against what. The devices are emulated. Releases that are not in the cache yet
/// are fetched (200 to 350 MB each). Exit status 1 when one run failed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this release; may be repeated
    #[arg(long = "release", value_name = "VERSION")]
    releases: Vec<String>,
    /// Only this configuration; may be repeated
    #[arg(long = "cell", value_name = "NAME", value_parser = cell)]
    cells: Vec<&'static Cell>,
    /// As --cell memcheck: a run under Valgrind
    #[arg(long)]
    memcheck: bool,
    /// Number of concurrent runs
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Keep the output of successful runs, too (target/matrix/VERSION/CELL)
    #[arg(long)]
    keep: bool,
    /// Write the outcome of each run to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the latest outcome of all cells to docs/RELEASES.md
    #[arg(long)]
    write_docs: bool,
    /// List the releases and the cells
    #[arg(long)]
    list: bool,
}

fn cell(name: &str) -> Result<&'static Cell> {
    CELLS.iter().find(|cell| cell.name == name).with_context(|| {
        let names: Vec<&str> = CELLS.iter().map(|cell| cell.name).collect();
        format!("there are {}", names.join(", "))
    })
}

/// The folder for the output of runs, under the target folder.
const FOLDER: &str = "matrix";
const PAGE: &str = "docs/RELEASES.md";
const BEGIN: &str = "<!-- matrix: written by cargo xtask matrix --write-docs -->\n";
const END: &str = "<!-- end matrix -->";

pub(crate) fn run(mut args: Args) -> Result<()> {
    if args.list {
        println!("releases: {}\ncells:", nccl::RELEASES.join(" "));
        CELLS.iter().for_each(|cell| println!("  {:16}{}", cell.name, cell.about));
        return Ok(());
    }
    args.cells.extend(CELLS.iter().filter(|cell| args.memcheck && cell.memcheck));
    // Without options, everything is run.
    if args.cells.is_empty() {
        args.cells = CELLS.iter().collect();
    }
    if args.releases.is_empty() {
        args.releases = nccl::RELEASES.map(str::to_owned).to_vec();
    }
    if args.cells.iter().any(|cell| cell.memcheck) {
        packages::ensure(&[VALGRIND, LIBC_SYMBOLS])?;
    }
    let (python, libraries) = nccl::releases(&args.releases, Python::ensure)?;
    let bench = Bench { python, tools: Tools::build()?, probes: nccl::plugins()? };

    heading("run");
    let started = Instant::now();
    let table = all(&args, &bench, &libraries)?;
    heading("the matrix");
    print!("{}", table.text());
    let (good, impossible, failed) = table.sums();
    let took = started.elapsed().as_secs_f64();
    println!("   {good} passed, {impossible} not available, {failed} failed, in {took:.1} s");
    if let Some(file) = &args.json {
        cache::write(file, table.json())?;
        println!("   wrote {}", file.display());
    }
    if args.write_docs {
        docs::replace_between(PAGE, BEGIN, END, &last_of_all()?.markdown())?;
    }
    let folder = cargo::target()?.join(FOLDER);
    ensure!(failed == 0, "{failed} runs failed; their output is in {}", folder.display());
    Ok(())
}

/// Runs all, several at a time: most of a run is waiting for sockets.
fn all<'a>(args: &'a Args, bench: &Bench, libraries: &[PathBuf]) -> Result<Table<'a>> {
    let columns = args.releases.len();
    let folder = cargo::target()?.join(FOLDER);
    let tree = cargo::commit("--exclude=*");
    let next = AtomicUsize::new(0);
    // Release after release, so that its library stays in the page cache.
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let (column, row) = (number / args.cells.len(), number % args.cells.len());
            let Some(release) = args.releases.get(column) else {
                return done;
            };
            let cell = args.cells[row];
            let run = Run { cell, release, library: &libraries[column], folder: folder.join(release).join(cell.name) };
            let outcome = one(bench, &run, args.keep, &tree).and_then(|outcome| {
                cache::create(&folder.join(release))?;
                cache::write(&kept(&folder, release, cell), serde_json::to_string(&outcome)?)?;
                Ok(outcome)
            });
            done.push((row * columns + column, outcome));
        }
    };
    let mut done = Vec::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..args.jobs).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            done.extend(worker.join().map_err(|_| anyhow!("a run panicked"))?);
        }
        anyhow::Ok(())
    })?;
    done.sort_by_key(|(place, _)| *place);
    let mut verdicts = done.into_iter().map(|(_, verdict)| verdict);
    let mut rows = Vec::new();
    for cell in &args.cells {
        let row = verdicts.by_ref().take(columns).collect::<Result<Vec<Outcome>>>()?;
        rows.push((*cell, row));
    }
    Ok(Table { releases: &args.releases, rows })
}

/// The outcome of every cell when it was last run, by this command or an earlier one.
fn last_of_all() -> Result<Table<'static>> {
    let folder = cargo::target()?.join(FOLDER);
    let releases: &'static [String] = Box::leak(Box::new(nccl::RELEASES.map(str::to_owned)));
    let row = |cell| (cell, releases.iter().map(|release| last(&folder, release, cell)).collect());
    Ok(Table { releases, rows: CELLS.iter().map(row).collect() })
}

/// The outcome of the last run, if there was one, with the reasons of the current list of cells.
fn last(folder: &Path, release: &str, cell: &Cell) -> Outcome {
    let exception = cell.exception(release);
    if let Some(exception) = exception.filter(|exception| exception.instead.is_none()) {
        return Outcome::not_run(Verdict::Impossible { why: exception.why.to_owned() });
    }
    let text = std::fs::read(kept(folder, release, cell)).unwrap_or_default();
    let mut outcome: Outcome = serde_json::from_slice(&text).unwrap_or_else(|_| Outcome::not_run(Verdict::NotRun));
    if let Verdict::Good { around, .. } = &mut outcome.verdict {
        *around = exception.map(|exception| exception.why.to_owned());
    }
    outcome
}

/// The file with the outcome of a run: after a change a few cells can be run again, and the page still shows all.
fn kept(folder: &Path, release: &str, cell: &Cell) -> PathBuf {
    folder.join(release).join(format!("{}.json", cell.name))
}

fn one(bench: &Bench, run: &Run<'_>, keep: bool, tree: &str) -> Result<Outcome> {
    let (verdict, took) = bench.judge(run)?;
    let seconds = took.as_secs_f64();
    println!("   {:8}{:16}{seconds:>6.1} s  {}", run.release, run.cell.name, verdict.line());
    if !keep && matches!(verdict, Verdict::Good { .. }) {
        cache::remove(&run.folder)?;
    }
    Ok(Outcome { verdict, seconds, tree: tree.to_owned() })
}
