//! `cargo xtask screenshot`: a picture of an archive, drawn by a viewer that is not ours.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::failure::{Context as _, Failure, Result};
use crate::options::{Options, unknown};
use crate::packages::{self, IMAGEMAGICK, VITE, XDOTOOL, XVFB};
use crate::process;
use crate::report;

const HELP: &str = "\
Draws an archive with the OTF2 viewer ViTE on a display without a screen and saves the picture.

Usage: cargo xtask screenshot ARCHIVE PNG [--wait SECONDS] [--size WIDTHxHEIGHT]

ARCHIVE is an anchor file (traces.otf2) or the folder that has it. Installs xvfb, vite, xdotool and imagemagick.
SECONDS (default 8) is how long the viewer may take to draw; WIDTHxHEIGHT defaults to 1400x900.
";

struct Request<'a> {
    anchor: std::path::PathBuf,
    picture: &'a Path,
    wait: Duration,
    size: &'a str,
}

/// Runs the command.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let Some(request) = parse(words)? else {
        print!("{HELP}");
        return Ok(());
    };
    if !request.anchor.is_file() {
        return Err(Failure::usage(format!(
            "there is no archive {}",
            request.anchor.display()
        )));
    }
    packages::ensure(&[XVFB, VITE, XDOTOOL, IMAGEMAGICK])?;
    report::heading("screenshot");
    let (_server, display) = start_display(request.size)?;
    let viewer = Command::new("vite")
        .arg(&request.anchor)
        .env("DISPLAY", &display)
        .env("LIBGL_ALWAYS_SOFTWARE", "1")
        .env("QT_LOGGING_RULES", "*=false")
        .stdin(Stdio::null())
        .spawn()
        .or_fail(|| "start vite".into())?;
    let mut viewer = Running(viewer);
    watch(&mut viewer, request.wait / 2)?;
    fill_screen(&display)?;
    watch(&mut viewer, request.wait / 2)?;
    process::run(
        Command::new("import")
            .args(["-display", &display, "-window", "root"])
            .arg(request.picture),
    )?;
    report::fact(&format!("saved {}", request.picture.display()));
    Ok(())
}

fn parse(words: &[String]) -> Result<Option<Request<'_>>> {
    let (mut paths, mut wait, mut size) = (Vec::new(), 8, "1400x900");
    let mut options = Options::new(words);
    while let Some(word) = options.next()? {
        match word {
            "-h" | "--help" => return Ok(None),
            "--wait" => {
                let value = options.value(word)?;
                wait = value
                    .parse()
                    .map_err(|_| Failure::usage(format!("--wait: `{value}` is not a number")))?;
            }
            "--size" => size = options.value(word)?,
            _ if word.starts_with('-') => return Err(unknown(word, HELP)),
            path => paths.push(Path::new(path)),
        }
    }
    let [archive, picture] = paths[..] else {
        return Err(Failure::usage(format!("two paths are needed\n\n{HELP}")));
    };
    let anchor = if archive.is_dir() {
        archive.join("traces.otf2")
    } else {
        archive.to_path_buf()
    };
    Ok(Some(Request {
        anchor,
        picture,
        wait: Duration::from_secs(wait),
        size,
    }))
}

/// Lets the viewer draw for a while.
fn watch(viewer: &mut Running, wait: Duration) -> Result<()> {
    let end = Instant::now() + wait;
    while Instant::now() < end {
        if let Some(status) = viewer.0.try_wait().or_fail(|| "wait for vite".into())? {
            return Err(Failure::wrong(format!(
                "vite ended early with {status}: it cannot show this archive"
            )));
        }
        sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// There is no window manager to make the window as large as the screen.
fn fill_screen(display: &str) -> Result<()> {
    process::run(
        Command::new("xdotool")
            .args(["search", "--onlyvisible", "--class", "vite"])
            .args(["windowmove", "0", "0", "windowsize", "100%", "100%"])
            .env("DISPLAY", display),
    )
}

/// Starts the X server on a number of its own choice.
fn start_display(size: &str) -> Result<(Running, String)> {
    use std::io::BufRead as _;
    let mut server = Command::new("Xvfb")
        .args(["-displayfd", "1", "-screen", "0", &format!("{size}x24")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .or_fail(|| "start Xvfb".into())?;
    let mut number = String::new();
    if let Some(stdout) = server.stdout.take() {
        // It writes one line when it is ready.
        std::io::BufReader::new(stdout)
            .read_line(&mut number)
            .or_fail(|| "read from Xvfb".into())?;
    }
    let server = Running(server);
    if number.trim().is_empty() {
        return Err(Failure::wrong(format!(
            "Xvfb did not start with a screen of {size}"
        )));
    }
    Ok((server, format!(":{}", number.trim())))
}

/// A program that ends when we do.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
