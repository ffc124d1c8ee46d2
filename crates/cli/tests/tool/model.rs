//! The types of the page's script, `page/model.d.ts`. This test serializes every field that a page can have; `cargo
//! xtask page` lets the TypeScript compiler hold that against the types: a field that one side lacks is an error.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use analysis::report::{
    Anomaly, Answer, Budget, Cause, CauseKind, Change, Clocks, Communicator, Compared, Comparison, Difference, Finding,
    Fit, Group, Heat, Kind, Limit, Link, LinkKey, Member, Messages, OperationClass, Outcome, Overlap, Quantiles, Rank,
    Report, Run, Verdict,
};
use analysis::{Completeness, Matching, Statement};
use serde_json::{Value, json};

use super::fixture::Fixture;
use super::report;
use super::support::Scratch;

const CAUSES: [CauseKind; 11] = [
    CauseKind::Unfinished,
    CauseKind::LateRank,
    CauseKind::LateSender,
    CauseKind::LateReceiver,
    CauseKind::SlowNic,
    CauseKind::SlowPair,
    CauseKind::SlowChannel,
    CauseKind::SlowConnection,
    CauseKind::WaitedForGpu,
    CauseKind::WaitedForPeer,
    CauseKind::Unknown,
];
const ANSWERS: [Answer; 3] = [Answer::Slower, Answer::NotSlower, Answer::NotShown];
const FINDINGS: [Finding; 5] =
    [Finding::Unfinished, Finding::Causes, Finding::Healthy, Finding::Unclear, Finding::Nothing];
const OUTCOMES: [Outcome; 4] = [Outcome::Faster, Outcome::Slower, Outcome::NoDifference, Outcome::Unclear];
const KEY: LinkKey = LinkKey { communicator: 0, from: Some(0), to: Some(1), peer: Some(1), channel: Some(0) };

fn cause(kind: CauseKind, link: Option<LinkKey>) -> Cause {
    Cause {
        kind,
        rank: link.map(|_| 0),
        host: link.map(|_| String::new()),
        link,
        since_ns: link.map(|_| 0),
        lost_ns: 0,
        share: link.map(|_| 0.0),
        instances: 0,
        is_stall: false,
        sentence: String::new(),
    }
}

fn anomaly(kind: CauseKind, link: Option<LinkKey>) -> Anomaly {
    Anomaly {
        kind,
        rank: link.map(|_| 0),
        link,
        class: 0,
        sequence: link.map(|_| 0),
        start_ns: 0,
        end_ns: 0,
        median_ns: 0.0,
        skew_ns: 0,
        lost_ns: 0,
        location: 0,
        event: link.map(|_| 0),
        sentence: String::new(),
    }
}

/// With something of everything, and with a null where one can be.
fn reports() -> Vec<Report> {
    let list = || vec![String::new()];
    let some = Some(Quantiles::default());
    let verdict = |finding| Verdict { finding, basis: list(), rest: Some(String::new()), ..Verdict::default() };
    let class = OperationClass {
        timing: BTreeMap::from([(String::new(), 0)]),
        duration_ns: some,
        algbw: some,
        busbw: some,
        transfer_busbw: some,
        skew_ns: some,
        ..OperationClass::default()
    };
    let rank = Rank {
        number: Some(0),
        members: vec![Member::default()],
        uncertainty_ns: Some(0),
        trend_ns_per_s: Some(0.0),
        change: Some(Change::default()),
        ..Rank::default()
    };
    let fit = Some(Fit { latency_ns: Some(0.0), rate: Some(0.0), r_squared: Some(0.0), ..Fit::default() });
    let link = Link {
        key: KEY,
        rate: Some(0.0),
        all: fit,
        least: Some(Fit::default()),
        points: vec![[0; 3]],
        slowdown: Some(0.0),
        change: Some(Change::default()),
        ..Link::default()
    };
    let run = Run { nccl_versions: list(), recorded: list(), commands: list(), hosts: list(), ..Run::default() };
    let completeness = Completeness {
        kinds: BTreeMap::from([(String::new(), BTreeMap::from([(String::new(), 0)]))]),
        other: BTreeMap::from([(String::new(), 0)]),
        problems: list(),
        parts_left_out: list(),
        matching: Matching {
            mismatches: vec![("", Statement { lines: list(), ..Statement::default() })],
            ..Matching::default()
        },
        ..Completeness::default()
    };
    let report = Report {
        format: 1,
        run,
        verdict: Verdict::default(),
        budget: Budget::default(),
        causes: CAUSES.iter().flat_map(|kind| [cause(*kind, Some(KEY)), cause(*kind, None)]).collect(),
        anomalies: CAUSES.iter().flat_map(|kind| [anomaly(*kind, Some(KEY)), anomaly(*kind, None)]).collect(),
        communicators: vec![Communicator { members: vec![Some(0), None], ..Communicator::default() }],
        operations: vec![class, OperationClass::default()],
        ranks: vec![rank, Rank::default()],
        lateness: Heat { ranks: vec![vec![Some(0.0), None]], ..Heat::default() },
        pairs: vec![link.clone(), Link::default()],
        channels: vec![link],
        messages: vec![Messages { from: Some(0), to: Some(0), ..Messages::default() }, Messages::default()],
        overlap: Some(vec![Overlap::default()]),
        clocks: Clocks { uncertainty_ns: Some(0), unknown: vec![0], ..Clocks::default() },
        completeness,
        blind_spots: list(),
    };
    let with =
        |finding| Report { verdict: verdict(finding), overlap: None, clocks: Clocks::default(), ..report.clone() };
    FINDINGS.map(with).into_iter().chain([report.clone()]).collect()
}

fn comparison(outcome: Outcome, answer: Option<Answer>, report: &Report) -> Comparison {
    let short = Difference { outcome, ..Difference::default() };
    let full = Difference {
        share: Some(0.0),
        interval_ns: Some([0.0; 2]),
        error_ns: Some(0),
        resolution: Some(0.0),
        slower_at_most: Some(0.0),
        ..short
    };
    let kind = Kind { communicators: vec![String::new()], total_ns: Some(0), ..Kind::default() };
    let all = Group {
        a: kind.clone(),
        b: kind.clone(),
        outcome,
        is_coarse: true,
        reason: Some(String::new()),
        median: Some(full),
        p99: Some(full),
        waiting: Some(full),
        transfer: Some(short),
    };
    let compared = Compared { run: report.run.clone(), ranks: 0, verdict: report.verdict.clone() };
    Comparison {
        format: 1,
        outcome,
        sentence: String::new(),
        basis: vec![String::new()],
        confidence: 0.99,
        runs: [compared.clone(), compared],
        groups: vec![all, Group::default()],
        only_a: vec![kind.clone()],
        only_b: vec![kind],
        limit: answer.map(|answer| Limit { share: 0.0, answer, sentence: String::new() }),
    }
}

#[test]
fn the_script_has_types_for_all_that_a_page_can_have() {
    let scratch = Scratch::new();
    let timeline = report::page_of(&scratch, &Fixture::sound().write(scratch.path()))["timeline"].clone();
    assert!(timeline["chunks"][0].is_object(), "{timeline}");
    let reports = reports();
    let answers = ANSWERS.map(Some).into_iter().chain([None]);
    let diffs = OUTCOMES.into_iter().zip(answers).map(
        |(outcome, answer)| json!({ "title": "", "tool": "", "comparison": comparison(outcome, answer, &reports[0]) }),
    );
    let pages = reports.iter().map(|report| json!({ "title": "", "tool": "", "report": report, "timeline": timeline }));
    let types = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/page/model");
    let text = format!(
        "import type {{ DiffModel, Model }} from '{}';\nexport const pages: Model[] = {};\nexport const diffs: DiffModel[] = {};\n",
        types.display(),
        pages.collect::<Value>(),
        diffs.collect::<Value>(),
    );
    fs::write(report::folder().join("model.ts"), text).expect("written");
}
