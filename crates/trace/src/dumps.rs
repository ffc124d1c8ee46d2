//! The dumps in a job's directory, and those that the user asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use journal::part::ProcessInfo;
use journal::part::{DUMPS, Dump};

use journal::host;
use regular_files::MOST_DESCRIPTION_BYTES;
use topology::{Graph, System};

/// What one process dumped for one of its communicators.
#[derive(Debug, Default)]
pub(crate) struct Dumped {
    /// The key of the process; 0 if it is unknown.
    pub(crate) key: u64,
    /// The file, for messages.
    pub(crate) file: String,
    pub(crate) system: System,
    pub(crate) graphs: Vec<Graph>,
}

#[derive(Debug, Default)]
pub(crate) struct Dumps {
    pub(crate) all: Vec<Dumped>,
    /// A line for each file that cannot be used.
    pub(crate) unused: Vec<(Dump, String)>,
}

/// NCCL may dump so long before it calls the first init.
const BEFORE_INIT: Duration = Duration::from_mins(1);

/// The paths of a system and of graphs that belong together.
type Pair = [Option<PathBuf>; 2];

impl Dumps {
    /// Reads the dumps of a job. A dump that cannot be used is counted, not an error.
    pub(crate) fn read<'a>(out: &Path, processes: impl Iterator<Item = &'a ProcessInfo>) -> Self {
        let mut pairs: BTreeMap<(u64, u32), Pair> = BTreeMap::new();
        for entry in fs::read_dir(out.join(DUMPS)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if let Some((dump, key, number)) = name.to_str().and_then(Dump::of_file_name) {
                let [system, graphs] = pairs.entry((key, number)).or_default();
                let place = if dump == Dump::System { system } else { graphs };
                // NCCL's file has the modes that the umask gives.
                host::seal_alone(&entry.path());
                *place = Some(entry.path());
            }
        }
        let mut dumps = Self::default();
        for ((key, _), pair) in pairs {
            dumps.add(key, &pair);
        }
        let mut of_user: BTreeSet<[&str; 2]> = BTreeSet::new();
        let mut began_ns = u64::MAX;
        for info in processes {
            of_user.insert([&info.system_dump, &info.graphs_dump]);
            began_ns = began_ns.min(info.session_start_realtime_ns);
        }
        for paths in of_user {
            let [system, graphs] = paths.map(Path::new);
            let pair = [(Dump::System, system), (Dump::Graphs, graphs)].map(|it| dumps.of_job(it, began_ns));
            dumps.add(0, &pair);
        }
        dumps
    }

    /// The user's file, unless it is from before the job.
    fn of_job(&mut self, (dump, path): (Dump, &Path), began_ns: u64) -> Option<PathBuf> {
        let written = path.metadata().ok().filter(Metadata::is_file)?.modified().ok()?;
        let written_ns = written.duration_since(UNIX_EPOCH).map_or(0, |it| it.as_nanos());
        if written_ns + BEFORE_INIT.as_nanos() < u128::from(began_ns) {
            self.unused.push((dump, format!("{}: older than the job", path.display())));
            return None;
        }
        Some(path.to_owned())
    }

    fn add(&mut self, key: u64, pair: &Pair) {
        let [system, graphs] = pair;
        let mut dumped = Dumped { key, ..Dumped::default() };
        let system = (Dump::System, system.as_deref());
        if let Some(system) = self.parse(&mut dumped, system, |text, _| System::parse(text)) {
            dumped.system = system;
        }
        let parse = |text: &str, dumped: &Dumped| Graph::parse_all(text, &dumped.system);
        if let Some(graphs) = self.parse(&mut dumped, (Dump::Graphs, graphs.as_deref()), parse) {
            dumped.graphs = graphs;
        }
        if !dumped.system.gpus.is_empty() || !dumped.graphs.is_empty() {
            self.all.push(dumped);
        }
    }

    fn parse<T>(
        &mut self,
        dumped: &mut Dumped,
        (dump, path): (Dump, Option<&Path>),
        parse: impl FnOnce(&str, &Dumped) -> Result<T, topology::Error>,
    ) -> Option<T> {
        let path = path?;
        dumped.file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = regular_files::read_to_string(path, MOST_DESCRIPTION_BYTES).map_err(|error| error.to_string());
        match text.and_then(|text| parse(&text, dumped).map_err(|error| error.to_string())) {
            Ok(parsed) => Some(parsed),
            Err(reason) => {
                self.unused.push((dump, format!("{}: {reason}", dumped.file)));
                None
            }
        }
    }
}
