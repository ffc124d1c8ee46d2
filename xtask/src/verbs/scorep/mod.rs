//! `cargo xtask scorep`: measures an NCCL job with a real Score-P in many ways.

mod cells;
mod job;
mod judge;
mod table;
mod waiting;

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::cache;
use crate::cargo::{self, Tools};
use crate::docs;
use crate::error::missing;
use crate::nccl;
use crate::process::{find, heading};
use crate::python::Python;

use cells::{Cell, Special};
use job::Bench;
use table::{Outcome, Table};

/// Measure an NCCL job with a real Score-P in many configurations, and verify its traces and profiles
///
/// Needs Score-P 8 or later on PATH, built with --enable-shared and for the MPI that is on PATH; with Scalasca there
/// (scan, scout.mpi), its analyser reads traces, too. The devices are emulated. Exit status 1 when one run failed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// NCCL release to run
    #[arg(long, value_name = "VERSION", default_value = "2.28.9")]
    release: String,
    /// Only cells whose names contain this; may be repeated
    #[arg(long = "cell", value_name = "PART")]
    cells: Vec<String>,
    /// Keep the output of successful runs, too (target/scorep/VERSION/CELL)
    #[arg(long)]
    keep: bool,
    /// Write the table to docs/SCOREP.md; only with all cells
    #[arg(long, conflicts_with = "cells")]
    write_docs: bool,
    /// List the cells
    #[arg(long)]
    list: bool,
}

const PAGE: &str = "docs/SCOREP.md";
const BEGIN: &str = "<!-- scorep: written by cargo xtask scorep --write-docs -->\n";
const END: &str = "<!-- end scorep -->";

pub(crate) fn run(args: &Args) -> Result<()> {
    let is_wanted = |cell: &Cell| {
        let name = cell.to_string();
        args.cells.is_empty() || args.cells.iter().any(|part| name.contains(part.as_str()))
    };
    let cells: Vec<Cell> = cells::all().into_iter().filter(is_wanted).collect();
    if args.list {
        cells.iter().for_each(|cell| println!("{cell}"));
        return Ok(());
    }
    let version = on_path()?;
    let (_, libraries) = nccl::releases(&[&args.release], Python::ensure_reader)?;
    let tools = Tools::build()?;
    let folder = cargo::target()?.join("scorep");
    // Programs instrumented by another Score-P would test that one.
    cache::remove(&folder.join("programs"))?;
    let bench = Bench::set_up(tools, libraries)?;
    let folder = folder.join(&args.release);

    heading(&format!("{version}, NCCL {}", args.release));
    let mut table = Table { version, release: args.release.clone(), rows: Vec::new(), same: Vec::new() };
    for cell in cells {
        let outcome = one(&bench, cell, &folder);
        println!("   {cell:50} {}", outcome.line());
        if outcome.result.is_ok() && !args.keep {
            cache::remove(&folder.join(cell.to_string()))?;
        }
        table.rows.push((cell, outcome));
    }
    if args.cells.is_empty() {
        table.same = same_archives(&bench, &folder)?;
    }
    heading("the table");
    print!("{}", table.markdown());
    if args.write_docs {
        docs::replace_between(PAGE, BEGIN, END, &table.markdown())?;
    }
    let failed = table.failed();
    ensure!(failed == 0, "{failed} runs failed; their output is in {}", folder.display());
    Ok(())
}

fn on_path() -> Result<String> {
    let needed = ["scorep", "scorep-preload-init", "cube_dump", "mpicc", "mpirun"];
    let lacking: Vec<&str> = needed.into_iter().filter(|name| find(name).is_none()).collect();
    if !lacking.is_empty() {
        return Err(missing(format!(
            "not on PATH: {}; Score-P 8.0 or later is needed (configure --enable-shared), with the MPI that it was \
            built for",
            lacking.join(", ")
        )));
    }
    let output = crate::process::output(std::process::Command::new("scorep").arg("--version"), "scorep --version")?;
    Ok(output.lines().next().unwrap_or("Score-P").trim().to_owned())
}

fn one(bench: &Bench, cell: Cell, folder: &Path) -> Outcome {
    let started = Instant::now();
    let impossible = match cell.special {
        Special::Scan | Special::Together if find("scan").is_none() || find("scout.mpi").is_none() => {
            Some("no Scalasca on PATH")
        }
        _ => cell.impossible(),
    };
    if let Some(why) = impossible {
        return Outcome { result: Ok(Err(why)), seconds: 0.0 };
    }
    let run = bench.run(cell, folder.join(cell.to_string()));
    let result = run.and_then(|run| judge::judge(bench, &run)).map(Ok).map_err(|error| format!("{error:#}"));
    Outcome { result, seconds: started.elapsed().as_secs_f64() }
}

/// Compares NCCL's archives of a job without Score-P, of an instrumented one, and of one with a preloaded Score-P.
fn same_archives(bench: &Bench, folder: &Path) -> Result<Vec<(String, Result<usize, String>)>> {
    let mut compared = Vec::new();
    for has_mpi in [false, true] {
        let alone = cells::alone(has_mpi);
        let run = bench.run(alone, folder.join(alone.to_string()))?;
        let expected = judge::contents(bench, &run.archive())?;
        for cell in cells::compared(has_mpi) {
            let run = bench.run(cell, folder.join(format!("same-{cell}")))?;
            let contents = judge::contents(bench, &run.archive())?;
            let differing = contents.iter().find(|(entry, count)| expected.get(*entry) != Some(count));
            let differing = differing.or_else(|| expected.iter().find(|(entry, _)| !contents.contains_key(*entry)));
            let result = match differing {
                None => Ok(contents.values().sum::<u64>().try_into().unwrap_or(usize::MAX)),
                Some((entry, count)) => {
                    let other = expected.get(entry).copied().unwrap_or(0);
                    Err(format!("{count} × {entry}, without Score-P {other}"))
                }
            };
            println!("   same as without Score-P: {cell:24} {}", result.as_ref().map_or("no", |_| "yes"));
            compared.push((cell.to_string(), result));
        }
    }
    Ok(compared)
}
