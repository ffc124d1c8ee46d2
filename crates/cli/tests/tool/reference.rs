//! Compares the fields of JSON reports with `docs/REFERENCE.md` §9: every printed field is documented, lists with `[]`,
//! and every documented field is printed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use whole_plugin::synthetic::{self, Disturbance, Job};

use super::fixture::{Fixture, Step};
use super::made_up::Timer;
use super::nccl::Nccl;
use super::recording::{NO_PROCESS, begin};
use super::score_p::ScoreP;
use super::support::Scratch;

/// Objects whose keys are data.
const MAPS: [&str; 7] = ["clock", "collectives", "kinds", "numbers", "other", "rules", "timing"];

/// Names, each with whether it is a list.
type Names = BTreeSet<(String, bool)>;

/// A row of a table.
#[derive(Debug)]
struct Row {
    fields: Names,
    /// Whether the field is nested deeper: `…ranks[]`, or "a histogram".
    is_inner: bool,
    /// The names in its description.
    words: Names,
    /// The names of another section that it refers to.
    others: Names,
}

impl Row {
    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(known, _)| known == name)
    }
}

/// The names in backticks; `name[]` marks a list.
fn names(text: &str) -> Names {
    let spans = text.split('`').skip(1).step_by(2);
    let names = spans.map(|span| span.trim_start_matches('…'));
    let (is_name, list) =
        (|character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_', "[]");
    let names = names.map(|name| (name.trim_end_matches(list), name.ends_with(list)));
    names.filter(|(name, _)| name.chars().all(is_name)).map(|(name, is_list)| (name.to_owned(), is_list)).collect()
}

/// The rows of all tables of a section. `as in X` includes the rows of section X.
fn rows(reference: &str, section: &str) -> Vec<Row> {
    let (_, part) = reference.split_once(&format!("\n### {section}\n")).unwrap_or_else(|| panic!("no {section}"));
    let part = &part[..part.find("\n#").unwrap_or(part.len())];
    let mut rows: Vec<Row> = Vec::new();
    for line in part.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| field")) {
        let (field, words) = line.trim_matches(['|', ' ']).split_once(" | ").expect("two cells");
        let is_inner = !field.starts_with('`') || field.starts_with("`…") || field.contains(" of a");
        let mut row = Row { fields: names(field), is_inner, words: names(words), others: Names::new() };
        for verb in words.split("as in `").skip(1).filter_map(|rest| rest.split(['`', ' ']).next()) {
            for of in self::rows(reference, &format!("`{verb} --json`")) {
                row.others.extend(of.fields);
                row.others.extend(of.words);
            }
        }
        rows.push(row);
    }
    assert!(!rows.is_empty(), "{section} has no table");
    rows
}

/// The differences between a section and the tool's output for it.
struct Compared {
    rows: Vec<Row>,
    seen: BTreeSet<String>,
    wrong: BTreeSet<String>,
}

impl Compared {
    fn top(&mut self, value: &Value) {
        let has_format = self.rows.iter().any(|row| row.has("format"));
        if has_format && value.get("format").is_none() {
            self.wrong.insert("an output has no format".to_owned());
        }
        for (name, value) in value.as_object().expect("an object") {
            let known = self.rows.iter().filter(|row| !row.is_inner).flat_map(|row| &row.fields);
            let known = known.filter(|(known, _)| known == name).map(|(_, is_list)| *is_list).collect();
            self.field(&[name], known, value);
        }
    }

    /// Checks a field that is documented: as a list or not, according to `known`.
    fn field(&mut self, path: &[&str], known: Vec<bool>, value: &Value) {
        let shown = path.join(".");
        self.seen.extend(path.last().map(|name| (*name).to_owned()));
        if known.is_empty() {
            self.wrong.insert(format!("{shown} is not documented"));
        } else if !value.is_null() && !known.contains(&value.is_array()) {
            self.wrong.insert(format!("{shown}: `[]` stands for a list"));
        }
        self.inner(path, value);
    }

    fn inner(&mut self, path: &[&str], value: &Value) {
        match value {
            Value::Array(values) => values.iter().for_each(|value| self.inner(path, value)),
            Value::Object(_) if path.last().is_some_and(|name| MAPS.contains(name)) => {}
            Value::Object(fields) => {
                for (name, value) in fields {
                    let rows = self.rows.iter().filter(|row| row.is_inner || path.iter().any(|name| row.has(name)));
                    let known = rows.flat_map(|row| row.fields.iter().chain(&row.words).chain(&row.others));
                    let known = known.filter(|(known, _)| known == name).map(|(_, is_list)| *is_list).collect();
                    self.field(&[path, &[name]].concat(), known, value);
                }
            }
            _ => {}
        }
    }

    /// Fields that no output contained. Words with `_` or `[]` are fields; others may be values.
    fn missing(&self, rare: &[&str]) -> Vec<String> {
        let fields = self.rows.iter().flat_map(|row| &row.fields);
        let words = self.rows.iter().flat_map(|row| &row.words);
        let words = words.filter(|(word, is_list)| *is_list || word.contains('_'));
        let all: BTreeSet<&String> = fields.chain(words).map(|(name, _)| name).collect();
        all.into_iter().filter(|name| !self.seen.contains(*name) && !rare.contains(&name.as_str())).cloned().collect()
    }
}

/// Compares a section with the output for these arguments; `rare` lists the fields that the output lacks.
fn compare(scratch: &Scratch, section: &str, rare: &[&str], runs: &[&[&str]]) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/REFERENCE.md");
    let reference = fs::read_to_string(page).expect("the page");
    let mut compared =
        Compared { rows: rows(&reference, &format!("`{section}`")), seen: BTreeSet::new(), wrong: BTreeSet::new() };
    for arguments in runs {
        let ended = scratch.ends(*arguments);
        let first = serde_json::Deserializer::from_str(&ended.stdout).into_iter::<Value>().next();
        let value = first.and_then(Result::ok).unwrap_or_else(|| panic!("{arguments:?}: {ended:?}"));
        match value {
            Value::Array(values) => values.iter().for_each(|value| compared.top(value)),
            value => compared.top(&value),
        }
    }
    let missing = compared.missing(rare).into_iter().map(|name| format!("{name} is in no output"));
    let wrong: Vec<String> = compared.wrong.iter().cloned().chain(missing).collect();
    wrong.into_iter().map(|wrong| format!("{section}: {wrong}")).collect()
}

/// Writes "trace", "late", "slow" and "once": together they show everything a report can contain.
fn write_jobs(scratch: &Scratch) {
    let mut fixture = Fixture::sound();
    for (name, value) in [
        ("NCCL::FLIGHT::PROCESSES", "1"),
        ("NCCL::FLIGHT::COMPLETE_FROM", "5"),
        ("NCCL::FLIGHT::LIST", "host: complete from 5"),
        ("NCCL::PXN::TRANSFERS", "1"),
        ("NCCL::MISMATCH::COUNT", "1"),
        ("NCCL::MISMATCH::COUNT::LIST", "world: rank 1"),
        ("NCCL::UNREPORTED", "replays"),
    ] {
        fixture.property(name, value);
    }
    // A finding for `check`.
    fixture.ranks[0].push(Step::Enter(454, super::fixture::SEND, 8));
    let _trace = fixture.write(scratch.path());
    let job = Job { has_kernels: true, has_ranges: true, instances: 150, ..Job::healthy(1) };
    for (name, wrong) in [
        ("late", Disturbance::LateRank { rank: 3, from: 60, ns: 400_000 }),
        ("slow", Disturbance::SlowPair { from: 2, latency: 3.0, time: 3.0 }),
        ("once", Disturbance::LateOnce { rank: 1, at: 80, ns: 9_000_000 }),
    ] {
        let job = Job { wrong, ..job.clone() };
        fs::create_dir(scratch.join(name)).expect("made");
        let _anchor = synthetic::write(&scratch.join(name), &job, &synthetic::play(&job));
    }
}

#[test]
fn outputs_of_archives() {
    let scratch = Scratch::new();
    write_jobs(&scratch);
    Nccl::new().write(&scratch.join("nccl"));
    ScoreP::new(Timer::Counter).write(&scratch.join("scorep"));
    let mut wrong = Vec::new();
    for (section, rare, runs) in [
        // Present only if they are not 0.
        ("info --json", &["left_out", "not_shown"][..], &[&["info", "trace", "--json"][..]][..]),
        (
            "stats --json",
            // The last ones need ranges of NVTX: `tests/nvtx` has them.
            &[
                "recv_flush_ns",
                "last_process",
                "last_rank",
                "path",
                "ranks_ns",
                "ranges_ns",
                "shortest_ns",
                "trend_ns_per_step",
                // Of messages: `tests/situations/messages.rs` has some.
                "late_receiver_ns",
                "late_sender_ns",
                // These need NCCL's topology: `tests/topology.rs` has it.
                "bytes_elsewhere",
                "capability",
                "gdr",
                "gpus",
                "graphs",
                "nic_in",
                "nic_out",
                "nvlinks",
                "pci",
                "received_bytes",
                "sent_bytes",
                "speed",
                "speed_inter",
                "speed_intra",
                "type_inter",
                "type_intra",
                "unused",
            ],
            &[
                &["stats", "late", "--json"],
                &["stats", "slow", "--json"],
                &["stats", "once", "--json"],
                &["stats", "trace", "--json"],
                &["stats", "late", "--json", "--baseline", "once"],
            ],
        ),
        ("diff --json", &[], &[&["diff", "late", "once", "--json"], &["diff", "trace", "late", "--json"]]),
        ("report --json", &[], &[&["report", "late", "--json"], &["report", "late", "--diff", "once", "--json"]]),
        ("check --json", &[], &[&["check", "trace", "--json"]]),
        // A value, not a field.
        ("merge --json", &["clock_gettime"], &[&["merge", "scorep", "nccl", "-o", "merged", "--json"]]),
        (
            "export --json",
            &[],
            &[
                &["export", "--format", "perfetto", "late", "-o", "p", "--json"],
                &["export", "--format", "scalasca", "late", "-o", "s", "--json"],
            ],
        ),
    ] {
        wrong.extend(compare(&scratch, section, rare, runs));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn outputs_of_recordings() {
    let scratch = Scratch::new();
    for (out, rank) in [("trace", 0), ("trace", 1), ("finalized", 0)] {
        let part = scratch.join(out).join("parts").join(format!("host-{rank}"));
        let mut process = begin(&part, rank, NO_PROCESS, |_| {});
        for sequence in 0..3 - u64::from(rank) {
            let _operation = process.all_reduce(sequence);
        }
        if (out, rank) == ("trace", 0) {
            // Rank 1 answers neither.
            process.exchange();
        }
        let _part = process.leave();
    }
    // Nothing is known of rank 1; the kept verdict says so.
    scratch.tool().args(["finalize", "finalized"]).assert().success();
    let mut wrong = Vec::new();
    for (section, rare, runs) in [
        // Other tests cover a mismatch, messages, a straggler and ranges; the job is not quiet.
        (
            "hang --json",
            &[
                "for_ns",
                "reports_calls",
                "reports_all_calls",
                "quiet_ns",
                "calls",
                "peer_called",
                "number",
                "times",
                "of",
                "behind_ns",
                "ranges",
            ][..],
            &[&["hang", "trace", "--json", "--after", "0"][..], &["hang", "finalized", "--json"]][..],
        ),
        (
            "metrics --json`, `top --json",
            &[],
            &[&["metrics", "trace", "--once", "--json"], &["top", "trace", "--json"]],
        ),
        ("finalize --json", &["reason", "problems", "first_mismatch"], &[&["finalize", "trace", "--json"]]),
        // Fields of an NCCL library, which this machine need not have.
        ("doctor --json", &["unreported", "found_by", "is_rccl", "plugin_names"], &[&["doctor", "--json"]]),
    ] {
        wrong.extend(compare(&scratch, section, rare, runs));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
