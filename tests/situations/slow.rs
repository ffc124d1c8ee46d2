//! What is slow and who is late: the verdict of `stats`.

use serde_json::Value;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;
use whole_plugin::synthetic::{self, Job, Operation};

use super::messages;
use super::passed_on;
use super::script::time_ns;
use super::table::{ALL, mixture_of_experts};

pub(crate) fn stats(job: &Job, ranks: &[Vec<Operation>], arguments: &[&str]) -> Value {
    let scratch = Scratch::new();
    let _anchor = synthetic::write(&scratch.out(), job, ranks);
    let said = run(scratch.tool(&["stats", "--json"]).arg(scratch.out()).args(arguments)).with_code(0).stdout;
    serde_json::from_str(&said).expect("JSON")
}

#[test]
fn each_situation_has_its_verdict() {
    let all = || ALL.iter().chain(&messages::ALL).chain(&passed_on::ALL);
    let found = all().filter_map(|(name, make)| {
        let made = make();
        let report = stats(&made.job, &made.ranks, &[]);
        made.differs(&report).or_else(|| contradicts(&report)).map(|why| format!("{name}: {why}"))
    });
    let found: Vec<String> = found.collect();
    assert!(found.is_empty(), "{} of {}:\n{}", found.len(), all().count(), found.join("\n"));
}

/// The report on the situation whose name begins so.
fn report_on(name: &str) -> Value {
    let (_, make) = ALL.iter().find(|(known, _)| known.starts_with(name)).expect("a situation");
    let made = make();
    stats(&made.job, &made.ranks, &[])
}

/// What no report may say, whatever the job.
fn contradicts(report: &Value) -> Option<String> {
    let budget = &report["budget"];
    let part = |name: &str| budget[name].as_u64().expect("a number");
    let parts = ["waiting_ns", "transfer_ns", "unclear_ns", "not_compared_ns"].map(part);
    if parts.iter().sum::<u64>() != part("operations_ns") {
        return Some(format!("the parts do not add up: {budget}"));
    }
    let sentence = report["verdict"]["line"].as_str().expect("a sentence");
    let is_of_ranks = !report["causes"][0]["link"].is_object() && report["causes"][0]["kind"] != "slow-nic";
    if is_of_ranks && sentence.chars().count() > 110 {
        return Some(format!("too long: {sentence}"));
    }
    // Where nobody is named, nothing is lost by anybody.
    let ranks = report["ranks"].as_array().expect("ranks");
    let named: Vec<&Value> = report["causes"].as_array().expect("causes").iter().map(|cause| &cause["rank"]).collect();
    let is_said = |(number, rank): (usize, &Value)| rank["lost_ns"].is_null() || named.contains(&&number.into());
    (!ranks.iter().enumerate().all(is_said)).then(|| format!("lost by ranks that are not named: {ranks:#?}"))
}

/// Of a group of sends and receives, a kernel counts once; what a filter leaves out does not count.
#[test]
fn the_time_of_all_ranks_in_operations_counts_once() {
    let script = mixture_of_experts(1_000_000);
    let truth_ns = time_ns(&script.ranks);
    let report = stats(&script.job, &script.ranks, &[]);
    assert_eq!(report["budget"]["operations_ns"], truth_ns);
    let classes = report["operations"].as_array().expect("operations").iter();
    let classes = classes.chain([&report["warm_up"]]);
    let time_ns_of = |class: &Value| class.get("budget").unwrap_or(class)["operations_ns"].as_u64();
    assert_eq!(classes.map(time_ns_of).sum::<Option<u64>>(), Some(truth_ns));
    let filtered = stats(&script.job, &script.ranks, &["--function", "AllReduce"]);
    let is_reduce = |operation: &&Operation| operation.function == "ncclAllReduce";
    let reduces = script.ranks.iter().map(|operations| operations.iter().filter(is_reduce).cloned().collect());
    assert_eq!(filtered["budget"]["operations_ns"], time_ns(&reduces.collect::<Vec<Vec<Operation>>>()));
    assert_eq!(filtered["causes"][0]["rank"], 5);
}

/// A rank is late "from a time on" only where the others began to wait for it then.
#[test]
fn since_when_a_rank_is_late_is_said_only_where_the_loss_begins() {
    let later = report_on("a rank that is late from half-way on");
    let sentence = later["verdict"]["line"].as_str().expect("a sentence");
    assert!(sentence.starts_with("Rank 3 was late from "), "{sentence}");
    assert!(later["causes"][0]["since_ns"].is_u64(), "{}", later["causes"]);
    let always = report_on("a rank that is late to a fourth of the collectives");
    let sentence = always["verdict"]["line"].as_str().expect("a sentence");
    assert!(sentence.starts_with("Rank 3 is late: "), "{sentence}");
    assert!(always["causes"][0]["since_ns"].is_null(), "{}", always["causes"]);
}

/// What a rank brings from the collective before is said as what it is.
#[test]
fn a_rank_that_only_transfers_longer_is_not_explained_by_chance() {
    let report = report_on("the collectives of a rank end later than");
    let sentence = report["verdict"]["line"].as_str().expect("a sentence");
    assert!(sentence.ends_with(", most of it for rank 2, whose own time is usual"), "{sentence}");
    // Of 60 times 3 ms that seven others wait, noise of computing is a small part.
    let awaited_ns = report["ranks"][2]["awaited_ns"].as_f64().expect("a time");
    assert!((0.95..=1.05).contains(&(awaited_ns / (60.0 * 7.0 * 3e6))), "{awaited_ns}");
}

/// Of connections nothing is said where nothing was recorded of them.
#[test]
fn connections_without_steps_are_not_said_to_be_well() {
    for name in ["nothing", "each collective has another"] {
        let report = report_on(name);
        let [sentence, rest] = ["line", "rest"].map(|part| report["verdict"][part].as_str().expect("a sentence"));
        assert!(rest.contains("links were not measured") && !sentence.contains("pair"), "{sentence} {rest}");
    }
}

/// The first collective is named as what it is.
#[test]
fn warm_up_is_said() {
    let report = report_on("the first collective");
    let basis = report["verdict"]["basis"].as_array().expect("a basis");
    let said = "Not judged, as warm-up: the first collective on 1 communicator, 7.";
    assert!(basis.iter().any(|line| line.as_str().is_some_and(|text| text.starts_with(said))), "{basis:#?}");
    assert_eq!(report["anomalies"], Value::Array(Vec::new()));
}
