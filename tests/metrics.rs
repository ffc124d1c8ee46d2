//! `nccl-otf2 metrics` beside a job of real NCCL, scraped by Prometheus.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use whole_plugin::machine::{has, skip};
use whole_plugin::process::{LIMIT, Running, run, start, wait_for};
use whole_plugin::scratch::Scratch;

/// An address that nobody listens at.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
    listener.local_addr().expect("an address").to_string()
}

/// The number of a moment.
fn value(moment: &Value) -> f64 {
    moment[1].as_str().and_then(|number| number.parse().ok()).expect("a number")
}

/// Prometheus, scraping an address each second.
struct Prometheus {
    address: String,
    running: Running,
}

impl Prometheus {
    fn start(scratch: &Scratch, target: &str) -> Self {
        let (config, address) = (scratch.path().join("prometheus.yml"), free_address());
        let scrape = "job_name: nccl, scrape_interval: 1s";
        let text = format!("scrape_configs: [{{{scrape}, static_configs: [{{targets: ['{target}']}}]}}]\n");
        fs::write(&config, text).expect("written");
        let mut prometheus = Command::new("prometheus");
        prometheus.arg(format!("--config.file={}", config.display())).arg(format!("--web.listen-address={address}"));
        prometheus.arg(format!("--storage.tsdb.path={}", scratch.path().join("data").display()));
        Self { address, running: start(&mut prometheus) }
    }

    fn results(&self, query: &str) -> Option<Vec<Value>> {
        let query: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let mut stream = TcpStream::connect(&self.address).ok()?;
        write!(stream, "GET /api/v1/query?query={query} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let mut answer: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
        assert!(answer["error"].is_null(), "{answer}");
        serde_json::from_value(answer["data"]["result"].take()).ok()
    }

    fn ask(&self, query: &str, by: &[&str]) -> Option<Values> {
        let results = self.results(query)?;
        let labels =
            |result: &Value| by.iter().map(|label| result["metric"][label].as_str().map(str::to_owned)).collect();
        Some(results.iter().map(|result| (labels(result), value(&result["value"]))).collect())
    }

    /// The same of one number.
    fn number(&self, query: &str) -> Option<f64> {
        self.ask(query, &[]).and_then(|answer| answer.into_values().next())
    }
}

type Values = BTreeMap<Option<Vec<String>>, f64>;

/// A query, the labels of what it answers, the values that `stats` has, and by how much they may differ.
struct Expected {
    query: &'static str,
    by: &'static [&'static str],
    values: Values,
    tolerance: f64,
}

impl Expected {
    fn is_met_by(&self, found: &Values) -> bool {
        let is_near = |(found, expected): (&f64, &f64)| (found - expected).abs() <= self.tolerance * expected;
        found.keys().eq(self.values.keys()) && found.values().zip(self.values.values()).all(is_near)
    }
}

/// The numbers of `stats` for all ranks: counts, bytes and durations by function; steps and bytes by pair.
fn by_stats(scratch: &Scratch) -> [Expected; 5] {
    let stats = run(scratch.tool(&["stats", "--json"]).arg(scratch.out())).with_code(0).stdout;
    let stats: Value = serde_json::from_str(&stats).expect("JSON");
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("a number: {value}"));
    let text = |value: &Value| value.to_string().trim_matches('"').to_owned();
    let communicators = stats["communicators"].as_array().expect("a list");
    assert_eq!(communicators.len(), 1, "ranks of pairs would be those of different communicators");
    let sum = |rows: &str, key: &dyn Fn(&Value) -> Vec<String>, what: &dyn Fn(&Value) -> f64| {
        let mut sums = Values::new();
        for row in stats[rows].as_array().expect("a list") {
            *sums.entry(Some(key(row))).or_insert(0.0) += what(row);
        }
        assert!(sums.len() >= 3 && sums.values().all(|sum| *sum > 0.0), "{rows}: {sums:?}");
        sums
    };
    let bytes = |class: &Value| {
        assert_eq!(class["bytes_min"], class["bytes_max"], "{class:#}");
        number(&class["bytes_min"]) * number(&class["count"])
    };
    let function_query = |query, what: &dyn Fn(&Value) -> f64, tolerance| {
        let values = sum("operations", &|class| vec![text(&class["function"])], what);
        Expected { query, by: &["function"], values, tolerance }
    };
    // `from` is one of all ranks, `peer` one of the communicator.
    let pair = |pair: &Value| {
        let from = usize::try_from(pair["from"].as_u64().expect("a number")).expect("small");
        vec![text(&stats["ranks"][from]["members"][0]["rank"]), text(&pair["peer"])]
    };
    let pair_query = |query, what: &'static str| {
        let values = sum("pairs", &pair, &|pair| number(&pair[what]));
        Expected { query, by: &["from", "to"], values, tolerance: 0.0 }
    };
    [
        function_query(
            "sum by (function) ({__name__=~\"nccl_(p2p_)?operations_total\"})",
            &|class| number(&class["count"]),
            0.0,
        ),
        function_query("sum by (function) ({__name__=~\"nccl_(p2p_)?operation_bytes_total\"})", &bytes, 0.0),
        function_query(
            "sum by (function) ({__name__=~\"nccl_(p2p_)?operation_duration_seconds_sum\"})",
            &|class| number(&class["duration_ns"]["total"]) / 1e9,
            1e-3,
        ),
        pair_query("nccl_pair_steps_total", "steps"),
        pair_query("nccl_pair_bytes_total", "bytes"),
    ]
}

#[test]
fn what_prometheus_answers_is_what_stats_says_though_metrics_was_killed() {
    // Ten seconds on any machine: Prometheus scrapes each second, and is to see the job before it ends.
    compare("40", "250");
}

#[test]
#[ignore = "takes two minutes: cargo xtask full runs it"]
fn the_same_of_two_minutes() {
    compare("1000", "10");
}

/// Of a job that does its operations so many times, each after a pause in milliseconds.
fn compare(rounds: &str, pause: &str) {
    if !has("prometheus") {
        skip("there is no prometheus (cargo xtask test installs it)");
        return;
    }
    let scratch = Scratch::new();
    let shape = ["--procs", "4", "--threads", "2", "--timeout", "600", "--ops", "pause,one,sendrecv"];
    let length = ["--rounds", rounds, "--pause", pause];
    let Some(mut job) = scratch.nccl("2.32.3", &[&shape[..], &length].concat()) else { return };
    job.env("NCCL_OTF2_EVENTS", "full").env("NCCL_OTF2_KEEP_JOURNAL", "1").env("SLURM_JOB_ID", "4711");
    let address = free_address();
    let metrics = || start(&mut scratch.tool(&["metrics", "out", "--listen", &address, "--interval", "0.5"]));
    // It waits for the job.
    let first = metrics();
    let prometheus = Prometheus::start(&scratch, &address);
    let job = start(&mut job);
    wait_for("operations", || prometheus.number("sum(nccl_operations_total) > 0"));
    let ages = "count(nccl_rank_last_event_age_seconds{communicator!=\"other\"})";
    wait_for("all ranks", || (prometheus.number(ages)? >= 8.0).then_some(()));
    assert!(prometheus.number("max(nccl_follower_behind_seconds)").is_some(), "it says how far it is behind");
    first.kill();
    let second = metrics();

    let _ended = job.wait(LIMIT).with_code(0);
    let expected = by_stats(&scratch);
    let began = Instant::now();
    for expected in &expected {
        loop {
            let found = prometheus.ask(expected.query, expected.by).expect("an answer");
            if expected.is_met_by(&found) {
                break;
            }
            let is_late = began.elapsed() > LIMIT;
            assert!(!is_late, "{}: {found:#?} instead of {:#?}", expected.query, expected.values);
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    let finished = "sum(nccl_processes{job_id=\"4711\",state=\"finished\"})";
    wait_for("all processes", || (prometheus.number(finished)? >= 4.0).then_some(()));
    // Prometheus would take a value that falls for a new beginning. How many events are late depends on the reader.
    let grow_only = "{__name__=~\"nccl_.*_(total|bucket|count|sum)\",__name__!=\"nccl_late_events_total\"}[1h]";
    for series in prometheus.results(grow_only).expect("series") {
        let values = series["values"].as_array().expect("values");
        assert!(values.is_sorted_by_key(value), "{series:#}");
    }
    assert_eq!(prometheus.number(ages), None, "what has finished does not hang");
    second.signal("TERM");
    let _ended = second.wait(LIMIT).with_code(0);
    prometheus.running.signal("TERM");
    let _ended = prometheus.running.wait(LIMIT);

    let once = run(&mut scratch.tool(&["metrics", "out", "--once", "--json"])).with_code(0).stdout;
    let once: Value = serde_json::from_str(&once).expect("a line of JSON");
    let operations = once["operations"].as_array().expect("operations").iter();
    let count: f64 = operations.filter_map(|row| row["count"].as_f64()).sum();
    assert_eq!((&once["format"], count), (&1.into(), expected[0].values.values().sum()));
}
