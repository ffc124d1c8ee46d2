//! Writes a shell script of nccl-tests' commands, which measure how long the job's operations take without the job.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::workloads::{Calls, Operation, locations, read};
use crate::{Error, Outcome, Result, Selection, Source};
use analysis::read::Members;
use analysis::try_in_parallel;
use nccl_events::archive::LocationKind;
use nccl_events::collective::{Collective, Function, element_bytes};
use nccl_events::ids::index;
use otf2::LocationGroupRef;

/// Sizes that differ by more than this factor, with none between them, are measured by separate commands.
const GAP: u64 = 16;

/// How the ranks of a communicator are placed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    ranks: u32,
    /// The number of ranks of each host, descending.
    hosts: Vec<u32>,
    /// Ranks of each process, and the threads that call for them; 1 if processes differ.
    of_process: u32,
    threads: u32,
}

type Key = (&'static str, String, Shape);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    count: u64,
    ns: u64,
}

/// Keyed by the size of the larger buffer in bytes, as nccl-tests count it.
type Sizes = BTreeMap<u64, Sum>;

#[derive(Debug, Default)]
struct Mix {
    sizes: BTreeMap<Key, Sizes>,
    without_test: u64,
    unfinished: u64,
}

pub fn write(source: &Source<'_>, out: &Path) -> Result<Outcome> {
    let trace = source.trace;
    let selection = Selection::new(*source)?;
    let members = Members::from_trace(trace);
    let calls = Calls::read(source, &selection)?;
    let shapes = shapes(source, &members);
    let wanted = locations(trace, &members, &selection);
    source.progress.begin("ranks", wanted.len() as u64);
    let mixes: Result<Vec<Mix>> = try_in_parallel(&wanted, |locations| {
        let datatype = |slice: &analysis::Slice| trace.fields_of(&slice.attributes).datatype.unwrap_or("").to_owned();
        let operations = read(trace, &members, (&selection, &calls), locations, datatype)?;
        source.progress.step();
        Ok(Mix::new(&operations, &members, &shapes))
    });
    source.progress.end();
    let mut mix = Mix::default();
    mixes?.into_iter().for_each(|other| mix.append(other));
    let commands = mix.commands();
    let text = script(&commands, &trace.anchor);
    fs::write(out, text).map_err(Error::io("write", out))?;
    let mut outcome =
        Outcome { files: vec![PathBuf::new()], events: commands.len() as u64, described: 0, ..Outcome::default() };
    outcome.leave_out(mix.unfinished, "operations had not ended");
    outcome
        .leave_out(mix.without_test, "operations that nccl-tests have no test for, of a single rank, or without data");
    Ok(outcome)
}

fn shapes(source: &Source<'_>, members: &Members) -> Vec<Shape> {
    let trace = source.trace;
    let mut callers: BTreeMap<LocationGroupRef, u32> = BTreeMap::new();
    for thread in trace.locations_of(&[LocationKind::ApiThread]) {
        *callers.entry(trace.process(trace.group(thread))).or_default() += 1;
    }
    let shape_of_communicator = |number: u32| {
        let mut hosts: BTreeMap<Option<&str>, u32> = BTreeMap::new();
        let mut processes: BTreeMap<LocationGroupRef, u32> = BTreeMap::new();
        for member in members.all.iter().filter(|member| member.communicator == number) {
            let process = members.job_ranks[index(member.job_rank)].process;
            *hosts.entry(trace.host_name(process)).or_default() += 1;
            *processes.entry(process).or_default() += 1;
        }
        let mut hosts: Vec<u32> = hosts.into_values().collect();
        nccl_events::sort::sort_by(&mut hosts, |a, b| b.cmp(a));
        let of_process = processes.values().next().copied().unwrap_or(1);
        let of_process = if processes.values().all(|ranks| *ranks == of_process) { of_process } else { 1 };
        let have_threads = |process| callers.get(process).is_some_and(|threads| *threads >= of_process);
        let threads = if processes.keys().all(have_threads) { of_process } else { 1 };
        Shape { ranks: u32::try_from(members.size(number)).unwrap_or(u32::MAX), hosts, of_process, threads }
    };
    (0..).zip(&members.communicators).map(|(number, _)| shape_of_communicator(number)).collect()
}

/// The test of a function, and whether it reduces.
const fn test(function: Function) -> Option<(&'static str, bool)> {
    Some(match function {
        Function::Collective(Collective::AllReduce) => ("all_reduce_perf", true),
        Function::Collective(Collective::AllGather) => ("all_gather_perf", false),
        Function::Collective(Collective::ReduceScatter) => ("reduce_scatter_perf", true),
        Function::Collective(Collective::AlltoAll) => ("alltoall_perf", false),
        Function::Collective(Collective::Broadcast) => ("broadcast_perf", false),
        Function::Collective(Collective::Scatter) => ("scatter_perf", false),
        Function::Collective(Collective::Reduce) => ("reduce_perf", true),
        Function::Collective(Collective::Gather) => ("gather_perf", false),
        Function::Send | Function::Recv => ("sendrecv_perf", false),
        Function::SendRecv => return None,
    })
}

/// The name that nccl-tests have for a type.
fn datatype(nccl: &str) -> &str {
    match nccl.strip_prefix("nccl").unwrap_or(nccl) {
        "Int8" | "Char" => "int8",
        "Uint8" => "uint8",
        "Int32" | "Int" => "int32",
        "Uint32" => "uint32",
        "Int64" => "int64",
        "Uint64" => "uint64",
        "Float16" | "Half" => "half",
        "Float64" | "Double" => "double",
        "Bfloat16" => "bfloat16",
        "Float8e4m3" => "f8e4m3",
        "Float8e5m2" => "f8e5m2",
        _ => "float",
    }
}

impl Mix {
    fn new(operations: &[Operation<String>], members: &Members, shapes: &[Shape]) -> Self {
        let mut mix = Self::default();
        // Count the time of a kernel once, even if several operations share it.
        let mut until: Option<(u32, u64)> = None;
        for operation in operations {
            let shape = &shapes[index(members.row(operation.member).communicator)];
            let test = operation.function.and_then(test).filter(|_| shape.ranks > 1);
            let (Some((test, _)), false) = (test.filter(|_| operation.bytes > 0), operation.is_unfinished) else {
                *(if operation.is_unfinished { &mut mix.unfinished } else { &mut mix.without_test }) += 1;
                continue;
            };
            let counted_to_ns =
                until.filter(|(member, _)| *member == operation.member).map_or(0, |(_, until_ns)| until_ns);
            let ns = operation.stop_ns.saturating_sub(operation.start_ns.max(counted_to_ns));
            until = Some((operation.member, counted_to_ns.max(operation.stop_ns)));
            let collective = operation.function.and_then(Function::collective);
            let bytes =
                collective.map_or(operation.bytes, |it_is| it_is.buffer_bytes(operation.bytes, shape.ranks.into()));
            let key = (test, operation.details.clone(), shape.clone());
            let sum = mix.sizes.entry(key).or_default().entry(bytes).or_default();
            (sum.count, sum.ns) = (sum.count + 1, sum.ns + if operation.is_timed { ns } else { 0 });
        }
        mix
    }

    fn append(&mut self, other: Self) {
        for (key, sizes) in other.sizes {
            let known = self.sizes.entry(key).or_default();
            for (bytes, more) in sizes {
                let sum = known.entry(bytes).or_default();
                (sum.count, sum.ns) = (sum.count + more.count, sum.ns + more.ns);
            }
        }
        self.without_test += other.without_test;
        self.unfinished += other.unfinished;
    }

    /// The commands, the most time first.
    fn commands(&self) -> Vec<Command<'_>> {
        let mut commands = Vec::new();
        for (key, sizes) in &self.sizes {
            let of_key = commands.len();
            for (bytes, sum) in sizes {
                let is_first = commands.len() == of_key;
                match commands.last_mut().filter(|_| !is_first) {
                    Some(Command { bytes: [_, most], sum: all, .. }) if *bytes <= most.saturating_mul(GAP) => {
                        *most = *bytes;
                        (all.count, all.ns) = (all.count + sum.count, all.ns + sum.ns);
                    }
                    _ => commands.push(Command { key, bytes: [*bytes, *bytes], sum: *sum }),
                }
            }
        }
        nccl_events::sort::sort_by_key(&mut commands, |command| std::cmp::Reverse((command.sum.ns, command.sum.count)));
        commands
    }
}

struct Command<'a> {
    key: &'a Key,
    bytes: [u64; 2],
    sum: Sum,
}

fn script(commands: &[Command<'_>], anchor: &Path) -> String {
    let total_ns: u64 = commands.iter().map(|command| command.sum.ns).sum();
    let mut text = format!(
        "#!/bin/sh\n\
         # The operations of {:?}, for https://github.com/NVIDIA/nccl-tests.\n\
         # Run it on the nodes of the job:  NCCL_TESTS=nccl-tests/build sh THIS > baseline.txt\n\
         # Compare:  nccl-otf2 stats --by operations --baseline baseline.txt DIR\n\
         # MPIRUN is the launcher with its options (hosts, binding), NCCL_TESTS the directory of the tests (MPI=1).\n\
         # What operations reduce by is not recorded: all use sum.\n\
         set -e\n\
         : \"${{MPIRUN:=mpirun}}\" \"${{NCCL_TESTS:=.}}\"\n",
        anchor
    );
    for command in commands {
        command.write(total_ns, &mut text);
    }
    text
}

impl Command<'_> {
    fn write(&self, total_ns: u64, text: &mut String) {
        let (test, of, shape) = self.key;
        let Shape { ranks, hosts, of_process, threads } = shape;
        let per_mille = (u128::from(self.sum.ns) * 1000).checked_div(total_ns.into()).unwrap_or(0);
        let equal = hosts.first().filter(|first| hosts.iter().all(|count| count == *first));
        let places = match (hosts.len(), equal) {
            (1, _) => "1 host".to_owned(),
            (hosts, Some(_)) => format!("{hosts} hosts"),
            _ => format!("hosts with {} of them", list(hosts)),
        };
        let [least, most] = self.bytes;
        let reduces = Function::ALL.into_iter().filter_map(self::test).any(|(name, reduces)| name == *test && reduces);
        let mut command = String::new();
        let processes = ranks / (*of_process).max(1);
        if processes > 1 {
            command += &format!("$MPIRUN -n {processes} ");
        }
        if let Some(host_ranks) = equal.filter(|count| hosts.len() > 1 && *count % of_process == 0) {
            command += &format!("--map-by ppr:{}:node ", host_ranks / of_process);
        }
        command += &format!(
            "\"$NCCL_TESTS/{test}\" -b {least} -e {} -f 2 -t {threads} -g {} -d {}{}",
            last(least, most),
            of_process / threads,
            datatype(of),
            if reduces { " -o sum" } else { "" }
        );
        let (whole, tenth) = (per_mille / 10, per_mille % 10);
        let between = if least == most { String::new() } else { format!(" to {most}") };
        // An archive may have any text as a type, which must not become a command.
        let element = if element_bytes(of) > 0 { of.as_str() } else { "elements" };
        // Name the test, which older releases of nccl-tests do not print. Writing to a `String` cannot fail.
        write!(
            text,
            "\n# {whole}.{tenth} % of the time in operations: {}, counted on every rank, with {least}{between} bytes of \
             {element}, on {ranks} ranks of {places}\necho '# Collective test starting: {test}'\n{command}\n",
            self.sum.count
        )
        .unwrap_or_default();
    }
}

fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// The first of `least`, its double, … that is not less than `most`.
fn last(least: u64, most: u64) -> u64 {
    let doubled = std::iter::successors(Some(least.max(1)), |size| size.checked_mul(2));
    doubled.into_iter().find(|size| *size >= most).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_measures_sizes_that_are_near() {
        let shape = Shape { ranks: 8, hosts: vec![4, 4], of_process: 2, threads: 1 };
        let sum = Sum { count: 16, ns: 500 };
        let sizes: Sizes = [24, 100, 1 << 20, 3 << 20].map(|bytes| (bytes, sum)).into();
        let mut mix = Mix::default();
        mix.sizes.insert(("all_reduce_perf", "ncclBfloat16".to_owned(), shape), sizes);
        let commands = mix.commands();
        let text = script(&commands, Path::new("traces.otf2"));
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("$MPIRUN")).collect();
        let head = "$MPIRUN -n 4 --map-by ppr:2:node \"$NCCL_TESTS/all_reduce_perf\"";
        let tail = "-f 2 -t 1 -g 2 -d bfloat16 -o sum";
        assert_eq!(
            lines,
            [format!("{head} -b 24 -e 192 {tail}"), format!("{head} -b 1048576 -e 4194304 {tail}")],
            "{text}"
        );
        assert_eq!(text.matches("# 50.0 % of the time").count(), 2, "{text}");
    }
}
