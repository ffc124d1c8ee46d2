//! `nccl-otf2 report`: the page's contents. Its looks and behaviour are tested in a browser by `cargo xtask page`,
//! which also opens the pages that these tests leave in `target/tmp/reports`.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use serde_json::Value;
use whole_plugin::synthetic::{self, Delayed, Disturbance, Job};

use super::diff;
use super::fixture::Fixture;
use super::recording;
use super::support::{Scratch, ToolOutput};

/// The folder that `cargo xtask page` reads.
fn folder() -> PathBuf {
    let reports = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("reports");
    fs::create_dir_all(&reports).expect("a folder for pages");
    reports
}

/// Keeps a page for the browser.
fn keep(page: &Path, name: &str) {
    fs::copy(page, folder().join(format!("{name}.html"))).expect("copied");
}

/// The data element of a page.
fn data(page: &str, name: &str) -> Option<Vec<u8>> {
    let (_, rest) = page.split_once(&format!("id=\"data-{name}\">"))?;
    inflate(rest.split_once('<')?.0)
}

fn inflate(base64: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    ZlibDecoder::new(STANDARD.decode(base64).ok()?.as_slice()).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn model(page: &str) -> Value {
    serde_json::from_slice(&data(page, "model").expect("a model")).expect("JSON")
}

/// The model of an archive's page.
fn page_of(scratch: &Scratch, trace: &Path) -> Value {
    let page = scratch.join("model.html");
    ToolOutput::run(scratch.tool().arg("report").arg(trace).arg("-o").arg(&page)).with_code(0);
    model(&fs::read_to_string(page).expect("a page"))
}

fn events(model: &Value) -> u64 {
    let chunks = model["timeline"]["chunks"].as_array().expect("chunks");
    chunks.iter().map(|chunk| chunk["events"].as_u64().expect("a number")).sum()
}

#[test]
fn the_page_has_the_report_and_every_event_and_asks_nobody_for_anything() {
    let scratch = Scratch::new();
    let trace = Fixture::sound().write(scratch.path());
    scratch.ends(["report", "trace", "--title", "a <b> & c"]).with_code(0).assert_prints("report.html");
    let path = trace.join("report.html");
    let page = fs::read_to_string(&path).expect("the page beside the archive");
    keep(&path, "sound");
    assert!(!page.contains("src=") && !page.contains("<link"), "the page loads something");
    let model = model(&page);
    assert_eq!(model["title"], "a <b> & c");
    assert_eq!(model["report"]["run"]["nccl_versions"][0], "2.28.9");
    let printed = scratch.ends(["print", "--json", "trace"]);
    let entered = printed.stdout.lines().filter(|line| line.contains("\"Enter\"")).count();
    assert!(entered > 0, "{printed:?}");
    assert_eq!(events(&model), entered as u64);
    // A chunk starts with its number of events.
    assert_eq!(data(&page, "chunk-0").expect("a chunk")[0], u8::try_from(entered).expect("few events"));
    let locations = model["timeline"]["locations"].as_array().expect("locations");
    assert!(locations.iter().any(|location| location["kind"] == "operation"), "{locations:?}");
}

/// Events that do not fit into the page go into files, which a page opened from disk can load as scripts.
#[test]
fn what_does_not_fit_goes_into_files_or_is_said_to_be_missing() {
    let scratch = Scratch::new();
    Fixture::sound().write(scratch.path());
    let run = |arguments: &[&str]| {
        let arguments = [&["report", "trace", "--json", "--size", "0", "-o", "page.html"], arguments].concat();
        let summary = scratch.ends(arguments).with_code(0).json();
        (summary, fs::read_to_string(scratch.join("page.html")).expect("a page"))
    };
    let (summary, page) = run(&[]);
    assert_eq!((&summary["events_in_page"], &summary["folder"]), (&0.into(), &Value::Null));
    assert_eq!(model(&page)["timeline"]["chunks"][0]["at"], "none");

    let (summary, page) = run(&["--full"]);
    assert_eq!((&summary["events_in_page"], &summary["files"]), (&0.into(), &1.into()));
    let model = model(&page);
    assert_eq!(model["timeline"]["chunks"][0]["at"], "file");
    assert_eq!(model["timeline"]["folder"], "page-files");
    let script = fs::read_to_string(scratch.join("page-files/chunk-0.js")).expect("a chunk");
    // The browser test loads this page.
    keep(&scratch.join("page.html"), "full");
    let beside = folder().join("page-files");
    fs::create_dir_all(&beside).expect("a folder for chunks");
    fs::write(beside.join("chunk-0.js"), &script).expect("written");
    let base64 = script.strip_prefix("nccl_otf2_chunk(0,\"").and_then(|rest| rest.strip_suffix("\")")).expect("a call");
    assert_eq!(u64::from(inflate(base64).expect("a chunk")[0]), events(&model));
}

#[test]
fn jobs_of_all_sorts_have_pages() {
    let scratch = Scratch::new();
    for (name, all_reduces) in [("empty", 0), ("aborted", 5)] {
        recording::record(&scratch.join(name), 0, recording::NO_PROCESS, all_reduces);
        let finalized = scratch.ends(["finalize", name]);
        assert!(finalized.code.is_some_and(|code| code < 2), "{finalized:?}");
        scratch.ends(["report", name]).with_code(0);
        keep(&scratch.join(name).join("report.html"), name);
    }
    // Score-P's own archives have no NCCL events, but still a timeline.
    let score_p = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/scorep-mpi-sample/traces.otf2");
    assert!(events(&page_of(&scratch, &score_p)) > 100);
    keep(&scratch.join("model.html"), "score-p");
    // Ranks are those of the job, not those of a process's team of threads.
    let printed = scratch.ends([Path::new("print"), &score_p]).with_code(0);
    printed.assert_prints("Master thread     MPI_COMM_WORLD 3 ");
}

/// The directory of a page is made, as that of an export is.
#[test]
fn unwritable_page_names_the_directory_and_a_workaround() {
    let scratch = Scratch::new();
    Fixture::sound().write(scratch.path());
    scratch.ends(["report", "trace", "-o", "missing/page.html"]).with_code(0);
    assert!(scratch.join("missing/page.html").is_file());
    let ended = scratch.ends(["report", "trace", "-o", "/proc/missing/page.html"]).with_code(2);
    ended.assert_prints("cannot create /proc/missing; name another path with -o: ");
    scratch.ends(["report", "nothing-here"]).with_code(2);
}

/// Other files, devices, FIFOs and links are not replaced by a page.
#[test]
fn only_a_page_is_replaced_by_a_page() {
    let scratch = Scratch::new();
    Fixture::sound().write(scratch.path());
    assert!(Command::new("mkfifo").arg(scratch.join("fifo")).status().expect("mkfifo").success());
    fs::write(scratch.join("file"), "before").expect("written");
    std::os::unix::fs::symlink("file", scratch.join("link")).expect("a link");
    for (place, is) in [("fifo", "a FIFO"), ("link", "a symbolic link"), (".", "a directory")] {
        let ended = scratch.ends(["report", "trace", "-o", place]).with_code(2);
        ended.assert_prints(&format!(
            "cannot replace {place}; name another file with -o: it is {is}, not a regular file"
        ));
        scratch.ends(["report", "trace", "--diff", "trace", "-o", place]).with_code(2).assert_prints(is);
    }
    scratch.ends(["watch", "trace", "--once", "--write", "fifo"]).with_code(2).assert_prints("it is a FIFO");
    for verb in [["report", "trace"].as_slice(), &["export", "trace", "--format", "perfetto"]] {
        scratch.ends(verb.iter().chain(&["-o", "-"])).with_code(2).assert_prints("cannot write to stdout");
    }
    assert!(fs::symlink_metadata(scratch.join("link")).expect("still there").is_symlink());
    scratch.ends(["report", "trace", "-o", "file"]).with_code(2).assert_prints("file exists and is not a page");
    assert_eq!(fs::read_to_string(scratch.join("file")).expect("still there"), "before");
    fs::write(scratch.join("file.part"), "mine").expect("written");
    for before in ["", "<!DOCTYPE html><p>before"] {
        fs::write(scratch.join("file"), before).expect("written");
        scratch.ends(["report", "trace", "-o", "file"]).with_code(0);
        assert!(fs::read_to_string(scratch.join("file")).expect("the page").len() > 1000);
    }
    assert_eq!(fs::read_to_string(scratch.join("file.part")).expect("still there"), "mine");
}

#[test]
fn two_runs_have_a_page_of_what_diff_says() {
    let scratch = Scratch::new();
    let [a, b] = [("a", 2_000), ("b", 2_200)].map(|(name, ns)| diff::job(&scratch, name, 60, ns));
    let report = |arguments: &[&str]| {
        ToolOutput::run(scratch.tool().arg("report").arg(&a).arg("--diff").arg(&b).args(arguments)).with_code(0)
    };
    let ended = report(&["--function", "Broadcast"]);
    let wanted = "B is slower in ncclBroadcast of 1 MiB";
    assert!(ended.stdout.starts_with(wanted), "{ended:?}");
    let page = fs::read_to_string(a.join("diff.html")).expect("the page beside the first archive");
    assert!(!page.contains("src=") && !page.contains("<link"), "the page loads something");
    let printed = ToolOutput::run(scratch.tool().args(["diff", "--json", "--function", "Broadcast"]).args([&a, &b]));
    let model = model(&page);
    assert_eq!(model["comparison"], printed.json());
    assert_eq!(model["title"], format!("{} and {}", a.display(), b.display()));
    let summary = report(&["--json", "-o", "all.html"]).json();
    assert_eq!((&summary["outcome"], &summary["page"]), (&"slower".into(), &"all.html".into()));
    keep(&scratch.join("all.html"), "diff");
    // A page of one run has all communicators and functions.
    scratch.ends(["report", "a/trace", "--function", "Broadcast"]).with_code(2).assert_prints("--diff");
}

/// An event of a page: when it begins, the number of its name, and whether the page has its parent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PageEvent {
    begin_ns: u64,
    name: u64,
    has_parent: bool,
}

/// A chunk's events.
fn events_of(chunk: &Value, bytes: &[u8]) -> Vec<PageEvent> {
    let numbers: Vec<u64> = bytes
        .chunk_by(|byte, _| *byte >= 0x80)
        .map(|number| number.iter().rev().fold(0, |all, byte| all << 7 | u64::from(byte & 0x7f)))
        .collect();
    let events = usize::try_from(numbers[0]).expect("a number");
    // The number of events, the lengths of nine columns; places and lengths of runs; the other columns.
    let runs = (1..).find(|runs| numbers[11..].iter().step_by(2).take(*runs).sum::<u64>() == numbers[0]).expect("runs");
    let column = |at: usize| &numbers[10 + 2 * runs + (at - 1) * events..][..events];
    assert_eq!(numbers.len(), 10 + 2 * runs + 8 * events);
    let mut kept = Vec::new();
    for run in numbers[11..].iter().step_by(2).take(runs) {
        let mut begin_ns = chunk["begin_ns"].as_u64().expect("a time");
        for _ in 0..*run {
            let at = kept.len();
            begin_ns += column(1)[at];
            kept.push(PageEvent { begin_ns, name: column(3)[at], has_parent: column(7)[at] != 0 });
        }
    }
    kept
}

/// All events of a page, sorted by their begins.
fn all_events(page: &str) -> Vec<PageEvent> {
    let model = model(page);
    let chunks = (0..).zip(model["timeline"]["chunks"].as_array().expect("chunks"));
    let chunks = chunks.filter(|(_, chunk)| chunk["at"] == "page");
    let events_of_chunk =
        |(at, chunk): (i32, &Value)| events_of(chunk, &data(page, &format!("chunk-{at}")).expect("a chunk"));
    let mut all: Vec<PageEvent> = chunks.flat_map(events_of_chunk).collect();
    all.sort_unstable();
    all
}

fn all_begins(page: &str) -> Vec<u64> {
    all_events(page).iter().map(|event| event.begin_ns).collect()
}

/// Asserts that a page has all events of the times that it calls complete, but for chunks that it has not. Returns
/// these times.
fn assert_windows_are_whole(page: &str, all: &[u64]) -> Vec<[u64; 2]> {
    let (kept, timeline) = (all_begins(page), model(page)["timeline"].take());
    let mut complete: Vec<[u64; 2]> = serde_json::from_value(timeline["complete"].clone()).expect("times");
    for chunk in timeline["chunks"].as_array().expect("chunks").iter().filter(|chunk| chunk["at"] == "none") {
        // A chunk has events of one such time, or of none.
        let begin_ns = chunk["begin_ns"].as_u64().expect("a time");
        complete.retain(|[begin, end]| !(begin..=end).contains(&&begin_ns));
    }
    assert!(complete.len() > 4, "{complete:?}");
    for [begin, end] in &complete {
        let of = |all: &[u64]| all.iter().copied().filter(|ns| (begin..=end).contains(&ns)).collect::<Vec<u64>>();
        assert_eq!(of(&kept), of(all), "{begin} to {end}");
    }
    complete
}

#[test]
fn the_page_of_a_large_job_has_what_is_worst_and_says_what_it_lacks() {
    let scratch = Scratch::new();
    let late = Disturbance::LateOnce { rank: 1, at: 1000, ns: 9_000_000 };
    let job = Job { wrong: late, instances: 1200, has_kernels: true, has_ranges: true, ..Job::healthy(1) };
    fs::create_dir(scratch.join("job")).expect("made");
    let _anchor = synthetic::write(&scratch.join("job"), &job, &synthetic::play(&job));
    let page = |arguments: &[&str]| {
        let summary = scratch.ends([&["report", "job", "--json", "-o", "page.html"], arguments].concat()).with_code(0);
        (summary.json(), fs::read_to_string(scratch.join("page.html")).expect("a page"))
    };
    let (whole, page_of_all) = page(&["--size", "100"]);
    assert_eq!(whole["events"], whole["events_in_page"]);
    let all = all_begins(&page_of_all);

    let (summary, part) = page(&["--size", "1"]);
    let bytes = summary["bytes"].as_u64().expect("a size");
    assert!((400_000..1_000_000).contains(&bytes), "{summary}");
    assert_eq!(summary["events"], whole["events"]);
    let made = model(&part);
    let kept = all_begins(&part);
    assert_eq!(summary["events_in_page"], kept.len());
    assert!(kept.len() < all.len() / 2, "{summary}: the job is too small for this test");
    let timeline = &made["timeline"];
    let sum: u64 =
        timeline["all"].as_array().expect("counts").iter().map(|count| count.as_u64().expect("a number")).sum();
    assert_eq!(sum, all.len() as u64);
    let complete = assert_windows_are_whole(&part, &all);
    let anomaly = made["report"]["anomalies"][0]["start_ns"].as_u64().expect("the delay");
    assert!(complete.iter().any(|[begin, end]| (begin..=end).contains(&&anomaly)), "{complete:?} and {anomaly}");
    // Every fortieth part of the run has some.
    let run = timeline["duration_ns"].as_u64().expect("a length");
    let parts: BTreeSet<u64> = kept.iter().map(|ns| ns * 40 / run).collect();
    assert!(parts.len() >= 40, "{parts:?}");
    keep(&scratch.join("page.html"), "large");

    let (summary, of_time) = page(&["--size", "1", "--from", "100ms", "--to", "300ms"]);
    assert_ne!(summary["events"], summary["events_in_page"]);
    let complete = assert_windows_are_whole(&of_time, &all);
    assert!(complete.iter().flatten().all(|ns| (100_000_000..=300_000_000).contains(ns)), "{complete:?}");

    let (of_part, page) = page(&["--from", "10ms", "--to", "20ms", "--rank", "0,3"]);
    assert_eq!(of_part["events"], of_part["events_in_page"]);
    let made = model(&page);
    let rows = made["timeline"]["rows"].as_array().expect("rows").iter().map(|row| row["name"].as_str());
    assert_eq!(rows.flatten().collect::<Vec<_>>(), ["rank 0", "rank 3"]);
    assert_eq!([&made["timeline"]["begin_ns"], &made["timeline"]["duration_ns"]], [10_000_000, 20_000_000]);
    assert!(all_begins(&page).iter().all(|ns| *ns <= 20_000_000));
}

#[test]
fn a_page_has_the_calls_of_operations_at_the_begin_of_complete_times() {
    let scratch = Scratch::new();
    let wrong = Disturbance::LateRank { rank: 1, from: 0, ns: 300_000 };
    let job = Job { wrong, ranks: 2, channels: 1, instances: 9000, calls: Some(Delayed::Gpu), ..Job::healthy(1) };
    fs::create_dir(scratch.join("job")).expect("made");
    let _anchor = synthetic::write(&scratch.join("job"), &job, &synthetic::play(&job));
    let page = |size: &str| {
        let _made = scratch.ends(["report", "job", "-o", "page.html", "--size", size]).with_code(0);
        fs::read_to_string(scratch.join("page.html")).expect("a page")
    };
    let (part, all) = (page("1"), page("100"));
    let complete = assert_windows_are_whole(&part, &all_begins(&all));
    let in_windows = |page: &str| {
        let is_inside =
            |event: &PageEvent| complete.iter().any(|[begin, end]| (begin..=end).contains(&&event.begin_ns));
        all_events(page).into_iter().filter(is_inside).collect::<Vec<PageEvent>>()
    };
    let (part_events, whole_events) = (in_windows(&part), in_windows(&all));
    assert!(whole_events.iter().any(|event| event.has_parent) && part_events == whole_events);
}
