//! `nccl-otf2 top` on journals written by the recorder's own writer, with and without a terminal.

use std::fs;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use whole_plugin::process::wait_for;

use super::recording::{NO_PROCESS, record};
use super::support::{Scratch, text};

/// A job of two processes; the second is behind.
fn job(scratch: &Scratch) {
    let out = scratch.join("trace");
    record(&out, 0, std::process::id(), 3);
    record(&out, 1, NO_PROCESS, 2);
}

/// What `hang` says of it; only the enqueueing of operations is recorded.
const HANG: &str = "HANG: the process of rank 1 is gone";

/// A terminal that is closed at the end of the test.
struct InTerminal(Child);

impl Drop for InTerminal {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// Runs `top` in a terminal of this size, made by `script`; at the end, the terminal's settings are printed.
fn in_terminal(scratch: &Scratch, (height, width): (u16, u16)) -> InTerminal {
    let tool = scratch.tool().get_program().to_owned();
    let command = format!(
        "stty rows {height} cols {width}; echo $$ > pid; {} top trace --interval 0.1; echo \"ended $?\"; stty -a",
        tool.display()
    );
    let mut script = Command::new("script");
    script
        .args(["--quiet", "--flush", "--command", &command, "typescript"])
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh");
    script.current_dir(scratch.path()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    InTerminal(script.spawn().expect("script"))
}

fn typescript(scratch: &Scratch) -> Vec<u8> {
    fs::read(scratch.join("typescript")).unwrap_or_default()
}

/// The contents of a screen of this size just before the terminal is restored.
fn screen(bytes: &[u8], (height, width): (u16, u16)) -> Vec<String> {
    let leave = b"\x1b[?1049l";
    let shown = bytes.windows(leave.len()).position(|at| at == leave).unwrap_or(bytes.len());
    let mut terminal = vt100::Parser::new(height, width, 0);
    terminal.process(&bytes[..shown]);
    terminal.screen().rows(0, width).collect()
}

/// Waits until a line with these words is on the screen.
fn wait_for_line(scratch: &Scratch, size: (u16, u16), words: &str) {
    wait_for(words, || screen(&typescript(scratch), size).iter().any(|line| line.contains(words)).then_some(()));
}

/// Asserts that `top` ended and restored the terminal.
fn left(scratch: &Scratch, mut script: InTerminal) {
    wait_for("end", || script.0.try_wait().expect("waited"));
    let said = text(&typescript(scratch));
    let (_, after) = said.rsplit_once("\x1b[?1049l").expect("the screen is left");
    for word in ["ended 0", " icanon", " echo ", "susp = ^Z"] {
        assert!(after.contains(word), "{word}: {after}");
    }
    assert!(said.contains("\x1b[?25h"), "the cursor is shown");
}

#[test]
fn a_terminal_shows_ranks_obeys_keys_and_is_given_back() {
    let size = (24, 80);
    let scratch = Scratch::new();
    job(&scratch);
    let mut script = in_terminal(&scratch, size);
    let mut keys = script.0.stdin.take().expect("piped");
    // The last line of the screen, which is written from the top.
    wait_for_line(&scratch, size, " q quit");
    wait_for_line(&scratch, size, HANG);
    let lines = screen(&typescript(&scratch), size);
    assert!(lines[2].starts_with("nccl-otf2 top trace"), "{lines:#?}");
    assert!(lines[1].starts_with("1 process runs, 1 gone; "), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("  0xabcdef0123456789  2 ")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("     1  gone ")), "{lines:#?}");
    assert!(lines[23].starts_with(" q quit  Tab ranks "), "{lines:#?}");
    keys.write_all(b"\t").expect("pressed");
    wait_for_line(&scratch, size, "ncclAllReduce");
    keys.write_all(b"\ts").expect("pressed");
    wait_for_line(&scratch, size, "s sort: process");
    keys.write_all(b"q").expect("pressed");
    left(&scratch, script);
}

#[test]
fn a_small_window_has_the_first_columns_and_a_signal_gives_it_back() {
    let size = (10, 40);
    let scratch = Scratch::new();
    job(&scratch);
    let mut script = in_terminal(&scratch, size);
    let keys = script.0.stdin.take().expect("piped");
    // The last line of the screen, which is written from the top.
    wait_for_line(&scratch, size, " q quit");
    let lines = screen(&typescript(&scratch), size);
    assert!(lines[1].ends_with('…') && lines[9].starts_with(" q quit"), "{lines:#?}");
    let shell = fs::read_to_string(scratch.join("pid")).expect("written");
    let killed = Command::new("pkill").args(["-TERM", "-P", shell.trim(), "nccl-otf2"]).status().expect("ran");
    assert!(killed.success());
    left(&scratch, script);
    drop(keys);
}

#[test]
fn without_a_terminal_it_prints_once() {
    let scratch = Scratch::new();
    job(&scratch);
    let said = scratch.ends(["top", "trace"]).with_code(0).stdout;
    for words in ["1 process runs, 1 gone; ", "communicators\n", "\nranks\n", "ncclAllReduce", "host-1"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(said.starts_with(HANG), "{said}");
    assert!(scratch.ends(["hang", "trace"]).with_code(1).stdout.starts_with(HANG));
    assert!(!["\x1b", "ops_per_s", "the job is over"].iter().any(|words| said.contains(words)), "{said}");
    let snapshot = scratch.ends(["top", "trace", "--json"]).json();
    assert!(snapshot["verdict"]["line"].as_str().is_some_and(|line| line.starts_with(HANG)), "{snapshot:#}");
    assert_eq!(snapshot["communicators"][0]["ranks"], 2, "{snapshot:#}");
    assert_eq!(snapshot["processes"][1]["state"], "gone", "{snapshot:#}");
    assert!(snapshot["processes"][1]["last_record_ns"].is_u64(), "{snapshot:#}");
    record(&scratch.join("dead"), 0, NO_PROCESS, 3);
    for verb in ["top", "metrics"] {
        scratch.ends([verb, "dead", "--once"]).assert_prints("the job is over, its last record was made ");
    }
    scratch.ends(["top", "nowhere"]).with_code(2);
}

/// An answer that is made of nothing would be taken for one.
#[test]
fn of_a_finished_archive_it_names_the_verb_that_reads_it() {
    let scratch = Scratch::new();
    for rank in 0..2 {
        record(&scratch.join("done"), rank, NO_PROCESS, 2);
    }
    scratch.ends(["finalize", "done"]).with_code(0);
    for arguments in ["top done", "top done --once", "top done --json", "metrics done --once"] {
        let ended = scratch.ends(arguments.split(' ')).with_code(2);
        assert!(ended.stderr.contains("only a finished archive: `nccl-otf2 stats done`"), "{arguments}: {ended:?}");
        assert!(arguments.starts_with("metrics") || ended.stdout.is_empty(), "{arguments}: {ended:?}");
    }
    fs::create_dir_all(scratch.join("empty/parts")).expect("made");
    for verb in ["top", "metrics"] {
        let ended = scratch.ends([verb, "empty", "--once"]).with_code(2);
        assert!(ended.stderr.contains("empty: no process has recorded anything yet"), "{verb}: {ended:?}");
    }
}
