//! `cargo xtask matrix`: releases of NCCL × ways to run them, each archive held against what was done.

mod cells;
mod judge;
mod kept;
mod memcheck;
mod table;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};

use crate::cache::{self, Cache};
use crate::cargo::{self, Profile};
use crate::docs;
use crate::nccl;
use crate::packages::{self, COMPILER, LIBC_SYMBOLS, OTF2, OTF2_TOOLS, PYTHON, VALGRIND};
use crate::process::heading;
use crate::python::Python;

use cells::{CELLS, Cell};
use judge::{Bench, Run};
use table::{Outcome, Table, Verdict};

/// Run many releases of NCCL in many ways and hold each archive against what was done
///
/// docs/RELEASES.md says what is held against what. The devices are emulated. Releases that are not in the cache yet
/// are fetched (200 to 350 MB each). Exit status 1 when one run failed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this release; may be given more than once
    #[arg(long = "release", value_name = "VERSION")]
    releases: Vec<String>,
    /// Only this way to run; may be given more than once
    #[arg(long = "cell", value_name = "NAME", value_parser = cell)]
    cells: Vec<&'static Cell>,
    /// As --cell memcheck: a run under Valgrind
    #[arg(long)]
    memcheck: bool,
    /// How many runs at once
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Keep what the good runs left, too (target/matrix/VERSION/CELL)
    #[arg(long)]
    keep: bool,
    /// Write what became of each run into a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Put all cells, as they were when last run, into docs/RELEASES.md
    #[arg(long)]
    write_docs: bool,
    /// Name the releases and the cells
    #[arg(long)]
    list: bool,
}

/// What is run.
struct Request {
    releases: Vec<String>,
    cells: Vec<&'static Cell>,
}

impl Request {
    /// Without options it is everything.
    fn new(args: &Args) -> Self {
        let all = || nccl::RELEASES.map(str::to_owned).to_vec();
        let releases = if args.releases.is_empty() { all() } else { args.releases.clone() };
        let memcheck = CELLS.iter().filter(|cell| args.memcheck && cell.memcheck);
        let mut cells: Vec<&Cell> = args.cells.iter().copied().chain(memcheck).collect();
        if cells.is_empty() {
            cells = CELLS.iter().collect();
        }
        Self { releases, cells }
    }
}

fn cell(name: &str) -> Result<&'static Cell> {
    CELLS.iter().find(|cell| cell.name == name).with_context(|| {
        let names: Vec<&str> = CELLS.iter().map(|cell| cell.name).collect();
        format!("there are {}", names.join(", "))
    })
}

/// Where runs leave what they write, under the target folder.
const FOLDER: &str = "matrix";
const PAGE: &str = "docs/RELEASES.md";
const BEGIN: &str = "<!-- matrix: written by cargo xtask matrix --write-docs -->\n";
const END: &str = "<!-- end matrix -->";

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.list {
        println!("releases: {}\ncells:", nccl::RELEASES.join(" "));
        CELLS.iter().for_each(|cell| println!("  {:16}{}", cell.name, cell.about));
        return Ok(());
    }
    let request = Request::new(args);
    packages::ensure(&[OTF2, OTF2_TOOLS, PYTHON, COMPILER])?;
    if request.cells.iter().any(|cell| cell.memcheck) {
        packages::ensure(&[VALGRIND, LIBC_SYMBOLS])?;
    }
    let cache = Cache::open()?;
    let python = Python::ensure(&cache)?;
    let libraries = request.releases.iter().map(|release| nccl::library(&cache, &python, release));
    let libraries = libraries.collect::<Result<Vec<PathBuf>>>()?;
    drop(cache);
    cargo::build(Profile::Debug, &["nccl-profiler-otf2", "nccl-otf2", "nccl-host", "fake-gpu"])?;
    let bench = Bench::set_up(python)?;

    heading("run");
    let started = Instant::now();
    let table = all(&request, args, &bench, &libraries)?;
    heading("the matrix");
    print!("{}", table.text());
    let (good, impossible, failed) = table.sums();
    let took = started.elapsed().as_secs_f64();
    println!("   {good} good, {impossible} not to be had, {failed} failed, in {took:.1} s");
    if let Some(file) = &args.json {
        cache::write(file, table.json())?;
        println!("   wrote {}", file.display());
    }
    if args.write_docs {
        docs::replace_between(PAGE, BEGIN, END, &last_of_all()?.markdown())?;
    }
    let folder = cargo::target()?.join(FOLDER);
    ensure!(failed == 0, "{failed} runs failed; what they left is in {}", folder.display());
    Ok(())
}

/// All runs, several at once: most of a run is waiting for sockets.
fn all<'a>(request: &'a Request, args: &Args, bench: &Bench, libraries: &[PathBuf]) -> Result<Table<'a>> {
    let columns = request.releases.len();
    let folder = cargo::target()?.join(FOLDER);
    let tree = cargo::commit("--exclude=*");
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
            let run = Run { cell, release, library: &libraries[column], folder: folder.join(release).join(cell.name) };
            let outcome = one(bench, &run, args.keep, &tree).and_then(|outcome| {
                kept::keep(&folder, release, cell, &outcome)?;
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
    for cell in &request.cells {
        let row = verdicts.by_ref().take(columns).collect::<Result<Vec<Outcome>>>()?;
        rows.push((*cell, row));
    }
    Ok(Table { releases: &request.releases, rows })
}

/// What became of every cell when it was last run, in this start or an earlier one.
fn last_of_all() -> Result<Table<'static>> {
    let folder = cargo::target()?.join(FOLDER);
    let releases: &'static [String] = Box::leak(Box::new(nccl::RELEASES.map(str::to_owned)));
    let rows = CELLS.iter().map(|cell| {
        let row = releases.iter();
        let row = row.map(|release| kept::last(&folder, release, cell));
        (cell, row.collect())
    });
    Ok(Table { releases, rows: rows.collect() })
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn without_options_it_is_everything() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' ')).map(|cli| Request::new(&cli.args));
        let request = parse("matrix").unwrap();
        assert_eq!((request.releases.len(), request.cells.len()), (nccl::RELEASES.len(), CELLS.len()));
        let request = parse("matrix --memcheck --cell shm").unwrap();
        assert_eq!(request.cells.iter().map(|cell| cell.name).collect::<Vec<_>>(), ["shm", "memcheck"]);
        assert!(parse("matrix --cell nothing").is_err());
        assert!(parse("matrix --jobs 0").is_err());
    }
}
