//! Reads the output of nccl-tests.

use std::collections::BTreeMap;

use crate::baseline::{MeasuredBandwidth, RankPlacement};
use crate::units::real;
use nccl_events::collective::Collective;
use serde::Deserialize;

/// The tests of collectives.
const TESTS: [(&str, Collective); 8] = [
    ("all_reduce_perf", Collective::AllReduce),
    ("all_gather_perf", Collective::AllGather),
    ("reduce_scatter_perf", Collective::ReduceScatter),
    ("alltoall_perf", Collective::AlltoAll),
    ("broadcast_perf", Collective::Broadcast),
    ("scatter_perf", Collective::Scatter),
    ("reduce_perf", Collective::Reduce),
    ("gather_perf", Collective::Gather),
];

pub(crate) fn read(text: &str) -> Result<Vec<MeasuredBandwidth>, String> {
    if text.trim_start().starts_with('{') { json(text) } else { lines(text) }
}

fn collective(program: &str) -> Option<Collective> {
    let name = program.rsplit('/').next().unwrap_or(program);
    TESTS.iter().find(|(test, _)| *test == name).map(|(_, collective)| *collective)
}

/// The properties of a test, from the lines before its table.
#[derive(Default)]
struct Test<'a> {
    /// Name of the test's program, such as `all_reduce_perf`; `None` outside of a test.
    name: Option<&'a str>,
    /// The host of each rank, by group (`NCCL_TESTS_SPLIT`).
    ranks: BTreeMap<(u32, u32), &'a str>,
    /// Names of the table's columns after `size`.
    columns: Vec<&'a str>,
}

fn lines(text: &str) -> Result<Vec<MeasuredBandwidth>, String> {
    let mut found = Vec::new();
    let mut test = Test::default();
    let mut rows = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["#", "Collective", "test", "starting:", name, ..] => test = Test { name: Some(name), ..Test::default() },
            ["#", "Collective", "test", "concluded:", ..] => test = Test::default(),
            ["#", "Using", "devices", ..] => test.ranks.clear(),
            ["#", "Rank", rank, rest @ ..] => {
                let group = match rest {
                    ["Group", group, ..] => group.parse().unwrap_or(0),
                    _ => 0,
                };
                let host = rest.iter().skip_while(|word| **word != "on").nth(1);
                if let (Ok(rank), Some(host)) = (rank.parse(), host) {
                    test.ranks.insert((group, rank), host);
                }
            }
            ["#", "size", columns @ ..] => test.columns = columns.to_vec(),
            [first, ..] if first.bytes().all(|byte| byte.is_ascii_digit()) && words.len() > 6 => {
                rows += 1;
                found.extend(test.row(&words).map_err(|why| format!("line {number}: {why}"))?);
            }
            _ => {}
        }
    }
    match rows {
        0 => Err("there is no table of nccl-tests in it".to_owned()),
        _ => Ok(found),
    }
}

impl Test<'_> {
    /// A row of the table; `None` if it has no time, or if the test measures no collective.
    fn row(&self, words: &[&str]) -> Result<Option<MeasuredBandwidth>, String> {
        let Some(name) = self.name else {
            return Err(
                "no line before says which test this is: `# Collective test starting: all_reduce_perf`".to_owned()
            );
        };
        let Some(collective) = collective(name) else {
            return Ok(None);
        };
        if self.ranks.is_empty() {
            return Err("no line before says which ranks there were (`#  Rank  0 … on HOST device …`)".to_owned());
        }
        let Some(time) = self.columns.iter().position(|column| *column == "time") else {
            return Err("no line before names a column `time`".to_owned());
        };
        let wrong = self.columns.iter().position(|column| *column == "#wrong").and_then(|at| words.get(at + 1));
        right(wrong.and_then(|text| text.parse().ok()))?;
        let time_us = words.get(time + 1).and_then(|text| text.parse().ok());
        let bytes = words.first().and_then(|text| text.parse().ok());
        Ok(bytes.zip(time_us).and_then(|(bytes, time_us)| measured(collective, self.hosts(), bytes, time_us)))
    }

    /// The number of ranks of each host, in the group of the first rank.
    fn hosts(&self) -> Vec<u32> {
        let group = self.ranks.keys().next().map_or(0, |(group, _)| *group);
        let group_ranks = self.ranks.iter().filter(|((of, _), _)| *of == group);
        counted(group_ranks.map(|(_, host)| (*host, 1)))
    }
}

/// Fails if the test computed wrong results: their time measures nothing.
fn right(wrong: Option<f64>) -> Result<(), String> {
    match wrong {
        Some(number) if number > 0.0 => Err(format!("the results of this test are wrong (#wrong {number})")),
        _ => Ok(()),
    }
}

fn counted<'a>(ranks: impl Iterator<Item = (&'a str, u32)>) -> Vec<u32> {
    let mut hosts: BTreeMap<&str, u32> = BTreeMap::new();
    for (host, ranks) in ranks {
        *hosts.entry(host).or_default() += ranks;
    }
    let mut hosts: Vec<u32> = hosts.into_values().collect();
    hosts.sort_unstable_by(|a, b| b.cmp(a));
    hosts
}

/// Computes the bandwidth from the time, which is printed with more digits than the bandwidths.
fn measured(collective: Collective, hosts: Vec<u32>, bytes: u64, time_us: f64) -> Option<MeasuredBandwidth> {
    let busbw = real(bytes) / time_us * 1e6 * collective.bus_factor(hosts.iter().sum());
    let is_measured = time_us > 0.0 && busbw.is_finite();
    is_measured.then_some(MeasuredBandwidth {
        collective,
        place: RankPlacement::Hosts(hosts),
        bytes,
        busbw,
        transfer: Some(busbw),
    })
}

/// A document that nccl-tests write with `-J FILE`, one per test.
#[derive(Deserialize)]
struct Document {
    args: Vec<String>,
    config: Config,
    results: Vec<Row>,
}

#[derive(Deserialize)]
struct Config {
    nthreads: u32,
    ngpus: u32,
    devices: Vec<Device>,
}

/// The first GPU of a process, by whose number of GPUs the others follow.
#[derive(Deserialize)]
struct Device {
    hostname: String,
    #[serde(default)]
    group: u32,
}

#[derive(Deserialize)]
struct Row {
    size: u64,
    out_of_place: Option<Times>,
    in_place: Option<Times>,
}

#[derive(Deserialize)]
struct Times {
    time: Option<f64>,
    nwrong: Option<f64>,
}

fn json(text: &str) -> Result<Vec<MeasuredBandwidth>, String> {
    let mut found = Vec::new();
    for document in serde_json::Deserializer::from_str(text).into_iter() {
        let document: Document =
            document.map_err(|error| format!("it is not the JSON that nccl-tests write: {error}"))?;
        let Some(collective) = document.args.first().and_then(|program| collective(program)) else {
            continue;
        };
        let Config { nthreads, ngpus, devices } = document.config;
        let group = devices.first().map_or(0, |device| device.group);
        let group_devices = devices.iter().filter(|device| device.group == group);
        let hosts = counted(group_devices.map(|device| (device.hostname.as_str(), nthreads.saturating_mul(ngpus))));
        for row in document.results {
            let times = row.out_of_place.or(row.in_place);
            right(times.as_ref().and_then(|times| times.nwrong)).map_err(|why| format!("size {}: {why}", row.size))?;
            let time_us = times.and_then(|times| times.time);
            found.extend(time_us.and_then(|time_us| measured(collective, hosts.clone(), row.size, time_us)));
        }
    }
    if found.is_empty() { Err("there is no measurement of a collective in it".to_owned()) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As nccl-tests 2.17 print it; the numbers are made up.
    const TEXT: &str = "\
# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807
# Collective test starting: reduce_scatter_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid 204199 on  node1 device  0 [0009:01:00] NVIDIA GH200 120GB
#  Rank  1 Group  0 Pid 204200 on  node1 device  1 [0019:01:00] NVIDIA GH200 120GB
#  Rank  2 Group  0 Pid 155254 on  node2 device  0 [0009:01:00] NVIDIA GH200 120GB
#  Rank  3 Group  0 Pid 155255 on  node2 device  1 [0019:01:00] NVIDIA GH200 120GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576         65536     float     sum      -1    100.0   10.49    7.86      0    99.00   10.59    7.94      0
# Out of bounds values : 0 OK
# Collective test concluded: reduce_scatter_perf
# Collective test starting: sendrecv_perf
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
     1048576        262144     float    none      -1    100.0   10.49   10.49      0    99.00   10.59   10.59    N/A
";

    #[test]
    fn a_table_says_what_was_measured_where() {
        let found = lines(TEXT).expect("a table");
        let wanted = measured(Collective::ReduceScatter, vec![2, 2], 1 << 20, 100.0).expect("measured");
        assert_eq!(found, [wanted]);
        assert!((found[0].busbw / 7.86e9 - 1.0).abs() < 0.001, "as printed: {found:?}");
    }

    #[test]
    fn what_a_table_does_not_say_is_named() {
        for (from, to, why) in [
            ("# Collective test starting", "# other", "line 13: no line before says which test"),
            ("#  Rank", "# other", "line 14: no line before says which ranks"),
            ("  time ", "  cputime ", "line 14: no line before names a column `time`"),
            ("7.86      0", "7.86      7", "line 14: the results of this test are wrong (#wrong 7)"),
            ("1048576", "size", "there is no table"),
        ] {
            let error = lines(&TEXT.replace(from, to)).expect_err(why);
            assert!(error.starts_with(why) || from.starts_with("# Coll") && error.contains("which test"), "{error}");
        }
    }

    #[test]
    fn json_says_the_same() {
        let text = r#"{"version":2,"args":["./build/all_reduce_perf","-g","2"],"nccl_version":22807,
            "config":{"nthreads":1,"ngpus":2,"devices":[{"rank":0,"group":0,"pid":1,"hostname":"node1"},
            {"rank":2,"group":0,"pid":2,"hostname":"node1"}]},
            "results":[{"size":8,"count":2,"out_of_place":null,"in_place":{"time":10.0,"bus_bw":0.0}},
            {"size":4096,"count":1024,"out_of_place":{"time":20.0,"bus_bw":0.2,"nwrong":0.0},"in_place":null}]}"#;
        let found = read(text).expect("measurements");
        let wanted = [(8, 10.0), (4096, 20.0)];
        let wanted = wanted.map(|(bytes, us)| measured(Collective::AllReduce, vec![4], bytes, us).expect("measured"));
        assert_eq!(found, wanted);
        assert!(read("{}").is_err());
    }
}
