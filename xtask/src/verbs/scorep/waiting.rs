//! MPI and NCCL in one analysis: compares scout's waiting times for late ranks with the archive's and the program's.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::job::{Bench, MPI_SETTINGS, PROCESSES, Run};
use crate::process;

const FUNCTIONS: [&str; 2] = ["ncclAllReduce", "MPI_Allreduce"];
/// The largest relative difference of two times that count as equal.
const MOST: f64 = 0.1;

#[derive(Debug, PartialEq)]
pub(super) struct Waiting {
    pub(super) function: &'static str,
    /// In the median round, by the times of the calls that the program noted.
    pub(super) program_ms: f64,
    /// In the median round, by the times in the archive.
    pub(super) archive_ms: f64,
    /// In all rounds, by the times in the archive.
    pub(super) all_ms: f64,
    /// In all rounds, by scout.
    pub(super) scout_ms: f64,
}

/// Times in ms: for each function, by rank and round.
type Times = BTreeMap<&'static str, Vec<Vec<f64>>>;

pub(super) fn judge(bench: &Bench, run: &Run) -> Result<Vec<Waiting>> {
    let analysis = run.folder.join("analysis");
    let mut merge = Command::new(&bench.tools.nccl_otf2);
    merge.args(["merge", "--json", "--for", "scalasca"]).arg(run.folder.join("experiment-0")).arg(run.archive());
    let merged = process::output(merge.arg("-o").arg(&analysis), "merge")?;
    let merged: Value = serde_json::from_str(&merged).context("the report of merge")?;
    let ticks_per_second = merged["scorep"][0]["ticks_per_second"].as_f64().context("the ticks of a second")?;
    let mut scout = Command::new("timeout");
    scout.args(["100", "mpirun", "-np", &PROCESSES.to_string(), "scout.mpi", "./traces.otf2"]);
    process::output(scout.envs(MPI_SETTINGS).current_dir(&analysis), "scout.mpi")?;
    let mut dump = Command::new("cube_dump");
    dump.args(["-m", "mpi_wait_nxn", "-c", "all", "-x", "excl", "-z", "excl"]).arg(analysis.join("scout.cubex"));
    let found = process::output(&mut dump, "cube_dump")?;
    let events = bench.tools.events(&analysis)?;
    let (program, archive) = (parse_program_output(&run.output)?, times_in_archive(&events, ticks_per_second)?);
    FUNCTIONS.into_iter().map(|function| one(function, &program, &archive, &found)).collect()
}

fn one(function: &'static str, program: &Times, archive: &Times, found: &str) -> Result<Waiting> {
    let rounds = |times: &Times| times.get(function).map(|times| waiting_ms(times)).unwrap_or_default();
    let (program, archive) = (rounds(program), rounds(archive));
    ensure!(!program.is_empty(), "the program said nothing of {function}");
    ensure!(program.len() == archive.len(), "{function}: {} rounds are in the archive", archive.len());
    let waiting = Waiting {
        function,
        program_ms: median(&program),
        archive_ms: median(&archive),
        all_ms: archive.iter().sum(),
        scout_ms: found.lines().filter_map(|line| seconds(line, function)).sum::<f64>() * 1e3,
    };
    let fits = |a: f64, b: f64| (a - b).abs() <= MOST * b;
    ensure!(fits(waiting.archive_ms, waiting.program_ms), "the archive does not fit to the program: {waiting:?}");
    ensure!(fits(waiting.scout_ms, waiting.all_ms), "scout does not fit to the archive: {waiting:?}");
    Ok(waiting)
}

/// The time that all ranks wait for the last one, in each round.
fn waiting_ms(ranks: &[Vec<f64>]) -> Vec<f64> {
    let rounds = ranks.iter().map(Vec::len).min().unwrap_or(0);
    let round = |round: usize| {
        let times: Vec<f64> = ranks.iter().filter_map(|rank| rank.get(round).copied()).collect();
        let last = times.iter().copied().fold(f64::MIN, f64::max);
        times.iter().map(|time| last - time).sum::<f64>()
    };
    (0..rounds).map(round).collect()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// Parses lines such as `called ncclAllReduce ROUND RANK NANOSECONDS`, which are in the order of rounds for each rank.
fn parse_program_output(output: &str) -> Result<Times> {
    let mut times = Times::new();
    for line in output.lines() {
        let Some(("called", words)) = line.split_once(' ') else {
            continue;
        };
        let words: Vec<&str> = words.split(' ').collect();
        let [name, _, rank, time] = words.as_slice() else {
            continue;
        };
        add(&mut times, name, rank.parse()?, time.parse()?, 1e9);
    }
    Ok(times)
}

fn times_in_archive(events: &[Value], ticks_per_second: f64) -> Result<Times> {
    let mut times = Times::new();
    for event in events.iter().filter(|event| event["event"] == "Enter") {
        // The location ids of first threads are their ranks.
        let rank = usize::try_from(event["locationRef"].as_u64().context("a location")?)?;
        let (region, time) = event["region"].as_str().zip(event["time"].as_u64()).context("a region and a time")?;
        add(&mut times, region, rank, time, ticks_per_second);
    }
    Ok(times)
}

#[expect(clippy::cast_precision_loss, reason = "up to 2^53 ticks of a nanosecond are weeks")]
fn add(times: &mut Times, name: &str, rank: usize, ticks: u64, per_second: f64) {
    let function = FUNCTIONS.into_iter().find(|function| *function == name);
    if let Some(function) = function.filter(|_| rank < PROCESSES) {
        let ranks = times.entry(function).or_insert_with(|| vec![Vec::new(); PROCESSES]);
        if let Some(rank) = ranks.get_mut(rank) {
            rank.push(ticks as f64 / per_second * 1e3);
        }
    }
}

/// The sum of a row of `cube_dump`, if its call path ends in the function.
fn seconds(line: &str, function: &str) -> Option<f64> {
    let (_, values) = line.trim_start().strip_prefix(function)?.strip_prefix("(id=")?.split_once(')')?;
    Some(values.split_whitespace().filter_map(|value| value.parse::<f64>().ok()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_cube_dump_and_lines_of_the_program_are_read() {
        assert_eq!(seconds("MPI_Allreduce(id=31)   0.25   0.5", "MPI_Allreduce"), Some(0.75));
        assert_eq!(seconds("MPI_Allreduce(id=31)   0.25   0.5", "ncclAllReduce"), None);
        let output = "called MPI_Allreduce 0 0 1000000\ncalled MPI_Allreduce 0 1 3000000\nother\n";
        let times = parse_program_output(output).expect("times");
        assert_eq!(waiting_ms(&times["MPI_Allreduce"]), [2.0]);
    }
}
