//! The dumps of PyTorch's NCCL flight recorder: the group's name and the line of Python of what a hang report names.

mod pickle;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::output;
use anyhow::{Context as _, Result, bail, ensure};
use hang::{CommRow, Report};
use serde::Deserialize;

/// The size limit of a dump; one of 100 000 collectives has less.
const MOST_BYTES: u64 = 128 << 20;
/// How many suspects are looked up. A deadlock may have a job's ranks as suspects.
const MOST: usize = 3;
/// How many files are named that are no dumps.
const MOST_NAMED: usize = 3;
/// Of a name in a dump.
const MOST_LETTERS: usize = 100;
/// A frame in these is not the user's.
const PACKAGES: [&str; 3] = ["/torch/", "/site-packages/", "/dist-packages/"];

/// What the pickle and the JSON of a dump have in common. JSON has no frames.
#[derive(Deserialize)]
struct Dump<'a> {
    #[serde(borrow)]
    pg_config: BTreeMap<Text<'a>, Group<'a>>,
    #[serde(borrow, default)]
    entries: Vec<Entry<'a>>,
}

#[derive(Deserialize)]
struct Group<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    desc: Text<'a>,
    /// `[0, 1, 2]`.
    #[serde(borrow)]
    ranks: Text<'a>,
}

#[derive(Deserialize)]
struct Entry<'a> {
    /// Name and description of the group.
    #[serde(borrow)]
    process_group: (Text<'a>, Text<'a>),
    #[serde(borrow)]
    profiling_name: Text<'a>,
    #[serde(borrow)]
    state: Text<'a>,
    time_created_ns: u64,
    collective_seq_id: u64,
    p2p_seq_id: u64,
    is_p2p: bool,
    /// The innermost first.
    #[serde(borrow, default)]
    frames: Vec<Frame<'a>>,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    filename: Text<'a>,
    line: u64,
}

/// A text of the dump, not copied.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().take(MOST_LETTERS).try_for_each(|letter| write!(f, "{letter}"))
    }
}

impl Group<'_> {
    fn ranks(&self) -> BTreeSet<u32> {
        self.ranks.0.split(|letter: char| !letter.is_ascii_digit()).filter_map(|rank| rank.parse().ok()).collect()
    }

    fn shown(&self) -> &Text<'_> {
        if matches!(&*self.desc.0, "" | "undefined") { &self.name } else { &self.desc }
    }
}

impl Entry<'_> {
    /// `all_reduce #41 in `forward (model.py:17)``, with PyTorch's number of the call in the group.
    fn shown(&self) -> String {
        let name = self.profiling_name.to_string();
        let name = name.split_once(':').map_or(&*name, |(_, name)| name);
        let number = if self.is_p2p { self.p2p_seq_id } else { self.collective_seq_id };
        let is_own = |frame: &&Frame<'_>| {
            let file = &*frame.filename.0;
            file.ends_with(".py") && !PACKAGES.iter().any(|folder| file.contains(folder))
        };
        let frame = self.frames.iter().find(is_own).or(self.frames.first()).map(|Frame { name, filename, line }| {
            let file = filename.0.rsplit('/').next().unwrap_or_default();
            format!(" in `{name} ({}:{line})`", Text(file.into()))
        });
        format!("{name} #{number}{}", frame.unwrap_or_default())
    }
}

/// Adds to the evidence what a rank that waits and the suspects have called, and where.
pub(crate) fn collect(directory: &Path, report: &mut Report) -> Result<()> {
    let dumps = dumps(directory)?;
    let mut asked: Vec<(u32, &CommRow, bool)> = Vec::new();
    for suspect in report.suspects.iter().take(MOST) {
        let Some(comm) = report.communicators.iter().find(|comm| comm.name == suspect.communicator) else { continue };
        let waiting = asked.is_empty().then(|| waiting(report, comm, &dumps)).flatten();
        asked.extend(waiting.map(|rank| (rank, comm, false)));
        asked.extend(suspect.job_rank.map(|rank| (rank, comm, true)));
    }
    let mut lines = Vec::new();
    for (rank, comm, is_suspect) in asked {
        match line(&dumps, report, comm, rank, is_suspect) {
            Ok(line) => lines.push(format!("{line} (flight recorder)")),
            Err(error) => output::note(format_args!("flight recorder, rank {rank}: {error:#}")),
        }
    }
    lines.dedup();
    report.verdict.evidence.extend(lines);
    Ok(())
}

/// The newest dump of each rank. Its name ends in the rank's number.
fn dumps(directory: &Path) -> Result<BTreeMap<u32, PathBuf>> {
    let shown = directory.display();
    let list = fs::read_dir(directory).with_context(|| format!("cannot read {shown}"))?;
    let (mut dumps, mut others) = (Vec::new(), Vec::new());
    for file in list {
        let file = file.with_context(|| format!("cannot read {shown}"))?;
        let name = file.file_name().to_string_lossy().into_owned();
        let digits = name.len() - name.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
        match name[name.len() - digits..].parse() {
            Ok(rank) if begins_as_dump(&file.path()) => {
                dumps.push((file.metadata().and_then(|file| file.modified()).ok(), rank, file.path()));
            }
            _ => others.push(name),
        }
    }
    if !others.is_empty() {
        others.sort();
        let more = if others.len() > MOST_NAMED { ", …" } else { "" };
        others.truncate(MOST_NAMED);
        output::note(format_args!(
            "flight recorder: no usable dumps; left out of {shown}: {}{more}",
            others.join(", ")
        ));
    }
    ensure!(
        !dumps.is_empty(),
        "{shown} has no dumps of PyTorch's flight recorder: set TORCH_FR_BUFFER_SIZE=2000 and \
        TORCH_FR_DUMP_TEMP_FILE={shown}/rank_ for the job"
    );
    dumps.sort();
    Ok(dumps.into_iter().map(|(_, rank, path)| (rank, path)).collect())
}

/// Protocol 2 and later, or JSON.
fn begins_as_dump(path: &Path) -> bool {
    let mut first = [0];
    regular_files::open(path, u64::MAX).and_then(|mut file| file.read_exact(&mut first)).is_ok()
        && matches!(first, [0x80 | b'{'])
}

/// The rank that has waited longest in the communicator and has a dump.
fn waiting(report: &Report, comm: &CommRow, dumps: &BTreeMap<u32, PathBuf>) -> Option<u32> {
    let rows = comm.sequences.iter().flat_map(|one| one.ranks.iter().filter(|row| one.entered.contains(&row.rank)));
    let in_collectives = rows.map(|row| (row.for_ns, row.job_rank));
    let waits = in_collectives.chain(comm.messages.iter().map(|row| (Some(row.for_ns), row.job_rank)));
    let waits = waits.filter_map(|(for_ns, rank)| Some((for_ns, rank?)));
    let is_other = |rank: u32| report.suspects.iter().all(|suspect| suspect.job_rank != Some(rank));
    waits.filter(|(_, rank)| is_other(*rank) && dumps.contains_key(rank)).max().map(|(_, rank)| rank)
}

fn line(
    dumps: &BTreeMap<u32, PathBuf>,
    report: &Report,
    comm: &CommRow,
    rank: u32,
    is_suspect: bool,
) -> Result<String> {
    let path = dumps.get(&rank).context("it has no dump")?;
    let bytes = regular_files::read(path, MOST_BYTES).with_context(|| format!("cannot read {}", path.display()))?;
    let dump = parse(&bytes).with_context(|| format!("{} is not a readable dump", path.display()))?;
    let last_ns = dump.entries.iter().map(|entry| entry.time_created_ns).max();
    let is_old = last_ns.zip(began_ns(report, rank)).is_some_and(|(last_ns, began_ns)| last_ns < began_ns);
    ensure!(!is_old, "{} is of an earlier job: it ends before this one began", path.display());
    let group = group(&dump, comm)?;
    let mut calls = dump.entries.iter().filter(|entry| entry.process_group.0 == group.name);
    let shown = group.shown();
    if !is_suspect {
        // Calls in CUDA graphs never complete: one with a completed call behind it does not wait.
        let call = calls.rev().take_while(|entry| entry.state.0 != "completed").last();
        let call = call.with_context(|| format!("its dump has no call of group `{shown}` that has not completed"))?;
        return Ok(format!("rank {rank} called {}, group `{shown}`", call.shown()));
    }
    Ok(match calls.next_back() {
        Some(call) => format!("rank {rank}'s last call of group `{shown}`: {}, {}", call.shown(), call.state),
        None => format!("rank {rank} has no call of group `{shown}` in its dump"),
    })
}

fn parse(bytes: &[u8]) -> Result<Dump<'_>> {
    if bytes.starts_with(b"{") { Ok(serde_json::from_slice(bytes)?) } else { pickle::from_slice(bytes) }
}

/// When the process of a rank began to record: its part's name ends in it.
fn began_ns(report: &Report, rank: u32) -> Option<u64> {
    let rows = report.communicators.iter().flat_map(|comm| &comm.sequences).flat_map(|one| &one.ranks);
    let address = &rows.into_iter().find(|row| row.job_rank == Some(rank))?.process;
    let process = report.processes.iter().find(|one| format!("{}:{}", one.host, one.pid) == *address)?;
    process.part.rsplit('-').next()?.parse().ok()
}

/// The group that is the communicator: the one that has its ranks, by its name if several have.
fn group<'d, 'a>(dump: &'d Dump<'a>, comm: &CommRow) -> Result<&'d Group<'a>> {
    let in_collectives = comm.sequences.iter().flat_map(|one| &one.ranks).filter_map(|row| row.job_rank);
    let known: BTreeSet<u32> = in_collectives.chain(comm.messages.iter().filter_map(|row| row.job_rank)).collect();
    let has_all = |group: &&Group<'_>| known.is_subset(&group.ranks());
    // `train (8)`, or `train #2 (8)`.
    let name = comm.name.rsplit_once(" (").map_or(&*comm.name, |(name, _)| name);
    let name = name.rsplit_once(" #").map_or(name, |(name, _)| name);
    let is_named = |group: &&Group<'_>| group.name.0 == name || group.desc.0 == name;
    let mut found: Vec<&Group<'_>> = dump.pg_config.values().filter(has_all).collect();
    let same: Vec<&Group<'_>> =
        found.iter().copied().filter(|group| group.ranks().len() == comm.ranks as usize).collect();
    // PyTorch makes communicators of two ranks for the messages of larger groups.
    found = if same.is_empty() { found.into_iter().filter(is_named).collect() } else { same };
    if found.len() > 1 && found.iter().any(is_named) {
        found.retain(is_named);
    }
    match &found[..] {
        [group] => Ok(group),
        [] => bail!("cannot tell which group it called: none in its dump has the ranks of {}", comm.name),
        [one, other, ..] => bail!(
            "cannot tell which group it called, because `{}` and `{}` have the ranks of {}",
            one.shown(),
            other.shown(),
            comm.name
        ),
    }
}
