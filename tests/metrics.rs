//! `nccl-otf2 metrics` beside a job of real NCCL, scraped by Prometheus.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

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

    /// What it answers.
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

    /// The values by a label.
    fn ask(&self, query: &str, by: &str) -> Option<BTreeMap<String, f64>> {
        let results = self.results(query)?;
        let results = results.iter();
        Some(
            results.map(|it| (it["metric"][by].as_str().unwrap_or_default().to_owned(), value(&it["value"]))).collect(),
        )
    }

    /// The same of one number.
    fn number(&self, query: &str) -> Option<f64> {
        self.ask(query, "").and_then(|answer| answer.into_values().next())
    }
}

/// Operations of all ranks by function, as `stats` counts them.
fn counted(scratch: &Scratch) -> BTreeMap<String, f64> {
    let stats = run(scratch.tool(&["stats", "--json"]).arg(scratch.out())).with_code(0).stdout;
    let stats: Value = serde_json::from_str(&stats).expect("JSON");
    let mut counted = BTreeMap::new();
    for class in stats["operations"].as_array().expect("operations") {
        let function = class["function"].as_str().expect("a name").to_owned();
        *counted.entry(function).or_insert(0.0) += class["count"].as_f64().expect("a number");
    }
    counted
}

#[test]
fn what_prometheus_answers_is_what_stats_says_though_metrics_was_killed() {
    if !has("prometheus") {
        skip("there is no prometheus (cargo xtask test installs it)");
        return;
    }
    let scratch = Scratch::new();
    let shape = ["--procs", "4", "--threads", "2", "--rounds", "150", "--ops", "pause,one,sendrecv"];
    let Some(mut job) = scratch.nccl("2.32.3", &shape) else { return };
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
    let expected = counted(&scratch);
    assert!(expected.len() >= 3, "{expected:?}");
    let sums = "sum by (function) ({__name__=~\"nccl_(p2p_)?operations_total\"})";
    let mut found = BTreeMap::new();
    wait_for("the sums of stats", || {
        found = prometheus.ask(sums, "function")?;
        assert!(found.iter().all(|(function, count)| expected.get(function) >= Some(count)), "{found:?} {expected:?}");
        (found == expected).then_some(())
    });
    // No series ever fell, which Prometheus would take for a new beginning.
    for series in prometheus.results("{__name__=~\"nccl_.*_total\"}[1h]").expect("series") {
        let values = series["values"].as_array().expect("values");
        assert!(values.is_sorted_by_key(value), "{series:#}");
    }
    assert_eq!(prometheus.number("sum(nccl_processes{job_id=\"4711\",state=\"finished\"})"), Some(4.0));
    assert_eq!(prometheus.number(ages), None, "what has finished does not hang");
    second.signal("TERM");
    let _ended = second.wait(LIMIT).with_code(0);
    prometheus.running.signal("TERM");
    let _ended = prometheus.running.wait(LIMIT);

    let once = run(&mut scratch.tool(&["metrics", "out", "--once", "--json"])).with_code(0).stdout;
    let once: Value = serde_json::from_str(&once).expect("a line of JSON");
    let operations = once["operations"].as_array().expect("operations").iter();
    let count: f64 = operations.filter_map(|it| it["count"].as_f64()).sum();
    assert_eq!((&once["format"], count), (&1.into(), expected.values().sum()));
}
