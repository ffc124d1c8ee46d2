//! The types of the page's script, `page/model.d.ts`. This test serializes pages of jobs that cover every field, every
//! name of a kind, and every possible null. `cargo xtask page` has the TypeScript compiler check them against the
//! types: a field or name that one side lacks is an error.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use analysis::report::{
    Anomaly, Answer, Cause, CauseKind, Clocks, CommunicatorCall, Delay, Difference, Finding, Fit, Group, Kind, Link,
    Messages, OperationClass, Outcome, PathKind, Phase, Rank, Run, Steps, Verdict, Why,
};
use serde_json::{Value, json};

use super::reference::{JOBS, write_jobs};
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

const DELAYS: [Delay; 4] = [Delay::Call, Delay::Launch, Delay::Gpu, Delay::Operation];
const PATH_KINDS: [PathKind; 5] =
    [PathKind::Computing, PathKind::Launching, PathKind::Transfer, PathKind::WarmUp, PathKind::Unclear];

fn cause(kind: CauseKind) -> Cause {
    Cause {
        kind,
        rank: None,
        host: None,
        nics: Vec::new(),
        link: None,
        since_ns: None,
        phase: None,
        why: None,
        lost_ns: 0,
        share: None,
        instances: 0,
        is_stall: false,
        sentence: String::new(),
    }
}

fn anomaly(kind: CauseKind) -> Anomaly {
    Anomaly {
        kind,
        rank: None,
        link: None,
        class: 0,
        sequence: None,
        start_ns: 0,
        end_ns: 0,
        median_ns: 0.0,
        skew_ns: 0,
        lost_ns: 0,
        location: 0,
        event: None,
        sentence: String::new(),
    }
}

#[test]
fn the_script_has_types_for_all_that_a_page_can_have() {
    let scratch = Scratch::new();
    write_jobs(&scratch);
    let pages = JOBS.map(|job| report::page_of(&scratch, Path::new(job)));
    assert!(pages[0]["timeline"]["chunks"][0].is_object(), "{:#}", pages[0]["timeline"]);
    let diffs = [["late", "once"], ["trace", "late"]].map(|[a, b]| {
        let found = scratch.ends(["diff", a, b, "--json", "--fail-if-slower", "5%"]).json();
        json!({ "title": "", "tool": "", "comparison": found })
    });
    let verdicts = FINDINGS.map(|finding| Verdict { finding, ..Verdict::default() });
    let types = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/page/model");
    let mut text = format!("import type * as page from '{}';\n", types.display());
    for (number, (name, values)) in (0..).zip([
        ("Model", json!(pages)),
        ("DiffModel", json!(diffs)),
        ("Cause", json!(CAUSES.map(cause))),
        ("Anomaly", json!(CAUSES.map(anomaly))),
        ("Verdict", json!(verdicts)),
        ("Outcome", json!(OUTCOMES)),
        ("Limit['answer']", json!(ANSWERS)),
        ("Report['clocks']", json!([Clocks::default()])),
        ("Report['overlap']", json!([Value::Null])),
        ("Why", json!([Why::default()])),
        ("Why['reason']", json!(DELAYS)),
        ("PathPart['kind']", json!(PATH_KINDS)),
        ("Run", json!([Run::default()])),
        ("OperationClass", json!([OperationClass::default()])),
        ("Rank", json!([Rank::default()])),
        ("Link", json!([Link::default()])),
        ("Fit", json!([Fit::default()])),
        ("Phase", json!([Phase::default()])),
        ("Steps", json!([Steps::default()])),
        ("CommunicatorCall", json!([CommunicatorCall::default()])),
        ("Messages", json!([Messages::default()])),
        ("Kind", json!([Kind::default()])),
        ("Group", json!([Group::default()])),
        ("Difference", json!([Difference::default()])),
    ]) {
        writeln!(text, "export const values{number}: page.{name}[] = {values};").expect("a string takes everything");
    }
    fs::write(report::folder().join("model.ts"), text).expect("written");
}
