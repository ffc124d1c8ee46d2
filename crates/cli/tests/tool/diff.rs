//! `nccl-otf2 diff`.

use std::path::{Path, PathBuf};

use otf2::CollectiveOp;
use serde_json::Value;

use super::fixture::{BROADCAST, Fixture, Step};
use super::support::{Scratch, ToolOutput};

/// A job of broadcasts that take `ns` to `ns` + 9.
pub(super) fn job(scratch: &Scratch, name: &str, broadcasts: u64, ns: u64) -> PathBuf {
    job_with(scratch, name, broadcasts, ns, |number| number * 7 % 10)
}

fn job_with(scratch: &Scratch, name: &str, number: u64, ns: u64, more_ns: impl Fn(u64) -> u64) -> PathBuf {
    write(scratch, name, &broadcasts(number, ns, more_ns))
}

fn broadcasts(broadcasts: u64, ns: u64, more_ns: impl Fn(u64) -> u64) -> Fixture {
    let mut fixture = Fixture::sound();
    for steps in &mut fixture.ranks {
        for number in 0..broadcasts {
            let start = 10_000 + number * 10_000;
            let stop = start + ns + more_ns(number);
            steps.extend([
                Step::Enter(start, BROADCAST, 1 << 20),
                Step::Begin(start),
                Step::End(stop, CollectiveOp::Bcast, Some(0), 1 << 20, 1 << 20),
                Step::Leave(stop, BROADCAST),
            ]);
        }
    }
    fixture.span.1 = 20_000 + broadcasts * 10_000;
    fixture
}

fn write(scratch: &Scratch, name: &str, fixture: &Fixture) -> PathBuf {
    let directory = scratch.join(name);
    std::fs::create_dir(&directory).expect("a directory");
    fixture.write(&directory)
}

/// Runs `diff` on two archives, expecting this exit code; returns stdout and stderr.
#[track_caller]
fn diff(scratch: &Scratch, a: &Path, b: &Path, arguments: &[&str], code: i32) -> (String, String) {
    let ended = ToolOutput::run(scratch.tool().arg("diff").args([a, b]).args(arguments)).with_code(code);
    (ended.stdout, ended.stderr)
}

#[test]
fn a_slower_run_is_named_and_fails_where_that_is_wanted() {
    let scratch = Scratch::new();
    let [a, same, b] = [("a", 2_000), ("same", 2_000), ("b", 2_200)].map(|(name, ns)| job(&scratch, name, 60, ns));
    let (out, _) = diff(&scratch, &a, &b, &[], 0);
    // What does not fit into the line follows.
    let wanted = "B is slower in ncclBroadcast of 1 MiB on 2 ranks, +10.0 % in the median.\n";
    let details = "  In ncclBroadcast of 1 MiB on 2 ranks, the median is 2.2 µs instead of 2.0 µs, +10.0 % (";
    assert!(out.starts_with(wanted) && out.contains(details), "{out}");
    let row = out.lines().find(|line| line.trim().starts_with("ncclBroadcast")).expect("a row");
    let row = row.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(row.starts_with("ncclBroadcast 1 MiB 2 slower 2.0 µs 2.2 µs +10.0 %"), "{row}");
    for (limit, code) in [("5%", 3), ("5", 3), ("10.5%", 0)] {
        let (_, err) = diff(&scratch, &a, &b, &["--fail-if-slower", limit], code);
        assert_eq!(err.contains("B is slower by 10.0 %, more than 5.0 %"), code == 3, "{err}");
    }
    let (out, _) = diff(&scratch, &b, &a, &["--fail-if-slower", "1%"], 0);
    assert!(out.starts_with("B is faster in ncclBroadcast"), "{out}");
    let (out, _) = diff(&scratch, &a, &same, &["--fail-if-slower", "1%"], 0);
    let line = out.lines().next().expect("a line");
    assert!(line.starts_with("The data shows no difference in 1 of 5 groups (changes over "), "{out}");
    assert!(line.ends_with(" % would show); unclear: 4 groups."), "{out}");
    // The operation that ran only once takes 0.3 % of the time, so B could be slower by that much.
    let (_, err) = diff(&scratch, &a, &same, &["--fail-if-slower", "0.1%"], 4);
    assert!(
        err.contains(
            "cannot decide whether B is slower by more than 0.1 %: 0.2 % of the time in operations of B cannot be \
            compared"
        ),
        "{err}"
    );
}

#[test]
fn runs_that_vary_too_much_are_not_said_to_be_equal() {
    let scratch = Scratch::new();
    // Half of the broadcasts, at random, take four times as long: the median is either of the two values.
    let mixed = |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63) * 6_000;
    let [a, b] = ["a", "b"].map(|name| job_with(&scratch, name, 60, 2_000, mixed));
    let (out, _) = diff(&scratch, &a, &b, &[], 0);
    let wanted = "The runs do not show whether they differ in 1 of 5 groups (only changes over ";
    assert!(out.starts_with(wanted), "{out}");
    let row = out.lines().find(|line| line.trim().starts_with("ncclBroadcast")).expect("a row");
    assert!(row.contains("not shown") && !out.contains("no difference"), "{out}");
}

/// The last broadcast of B, 20 s long on rank 0, has no end: its length is neither a duration nor evidence.
#[test]
fn a_run_that_did_not_end_does_not_pass() {
    let scratch = Scratch::new();
    let [a, b] = ["a", "b"].map(|name| {
        let mut fixture = broadcasts(60, 2_000, |number| number * 7 % 10);
        if name == "b" {
            let start = fixture.span.1;
            fixture.span.1 += 20_000_000_000;
            fixture.ranks[0].extend([Step::EnterUnfinished(start, BROADCAST), Step::Leave(fixture.span.1, BROADCAST)]);
            fixture.property("NCCL::COUNT::COLL::UNFINISHED", "1");
        }
        write(&scratch, name, &fixture)
    });
    let (out, err) = diff(&scratch, &a, &b, &["--fail-if-slower", "20%"], 4);
    assert!(out.starts_with("B did not end: ") && out.contains("\n  The data shows no difference in 1 "), "{out}");
    assert!(err.contains("cannot decide whether B is slower by more than 20.0 %: B did not end: "), "{err}");
    let (out, _) = diff(&scratch, &b, &a, &["--fail-if-slower", "20%"], 0);
    assert!(out.starts_with("A did not end: "), "{out}");
}

#[test]
fn what_cannot_be_compared_does_not_pass() {
    let scratch = Scratch::new();
    let [a, b] = [("a", 10), ("b", 60)].map(|(name, broadcasts)| job(&scratch, name, broadcasts, 2_000));
    let (out, err) = diff(&scratch, &a, &b, &["--fail-if-slower", "5%"], 4);
    let wanted = "The data does not allow a comparison: 50 operations are needed, A has 10 and B 60";
    assert!(out.starts_with(wanted) && !out.contains("confidence"), "of no interval: {out}");
    let wanted = "cannot decide whether B is slower by more than 5.0 %: 100.0 % of the time in operations of B cannot \
        be compared, most of it ncclBroadcast of 1 MiB on 2 ranks: 50 operations are needed, A has 10 and B 60";
    assert!(err.contains(wanted), "{err}");
    for (arguments, words) in [
        (["--fail-if-slower", "much"], "not a percentage of 0 or more, such as 5%"),
        (["--fail-if-slower", "-5"], "not a percentage of 0 or more"),
        (["--comm", "nobody"], "no communicator named nobody"),
        (["--rank", "7"], "no rank 7: the archive has ranks 0 to 1"),
    ] {
        let (_, err) = diff(&scratch, &a, &b, &arguments, 2);
        assert!(err.contains(words), "{err}");
    }
}

/// Runs whose broadcasts take 2.0 to 2.6 µs: 60 of them cannot show a change of 5 %.
#[test]
fn a_change_that_the_runs_cannot_show_does_not_pass() {
    let scratch = Scratch::new();
    let noisy = |name, ns| job_with(&scratch, name, 60, ns, |number| number * 37 % 60 * 10);
    // B is slower by 5.7 %.
    let [a, b] = [("a", 2_000), ("b", 2_130)].map(|(name, ns)| noisy(name, ns));
    for (limit, code) in [("1%", 4), ("5%", 4), ("40%", 0)] {
        let (out, err) = diff(&scratch, &a, &b, &["--fail-if-slower", limit, "--json"], code);
        let found: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(found["limit"]["answer"], if code == 4 { "not-shown" } else { "not-slower" });
        let median = &found["groups"][0]["median"];
        let percent = |name: &str| format!("{:.1} %", median[name].as_f64().expect("a share") * 100.0);
        let (at_most, resolution) = (percent("slower_at_most"), percent("resolution"));
        let said = format!(
            "in 1 of 5 groups of operations, ncclBroadcast of 1 MiB on 2 ranks, B may be slower by up to {at_most}. \
            The smallest change that these runs can show there is {resolution}: record more collectives in both runs \
            (60 and 60 now)"
        );
        assert_eq!(err.contains(&said), code == 4, "{limit}: {err}");
        assert!(median["slower_at_most"].as_f64() > median["share"].as_f64(), "{median}");
    }
}
