//! `cargo xtask screenshot`: a picture of an archive, drawn by a viewer that is not ours.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::readers::anchor;
use crate::error::missing;
use crate::packages::{self, IMAGEMAGICK, VITE, XDOTOOL, XVFB};
use crate::process::{self, heading};

/// Draw an archive with the viewer ViTE on a virtual display
///
/// Installs xvfb, vite, xdotool and imagemagick.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// An anchor file (traces.otf2) or the folder that has it
    archive: PathBuf,
    /// Where to save the picture
    #[arg(value_name = "PNG")]
    picture: PathBuf,
    /// How long the viewer may take to draw
    #[arg(long, value_name = "SECONDS", default_value_t = 8)]
    wait: u64,
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "1400x900")]
    size: String,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let anchor = anchor(&args.archive);
    if !anchor.is_file() {
        return Err(missing(format!("there is no archive {}", anchor.display())));
    }
    packages::ensure(&[XVFB, VITE, XDOTOOL, IMAGEMAGICK])?;
    heading("screenshot");
    let (_server, display) = start_display(&args.size)?;
    let mut vite = Command::new("vite");
    vite.arg(&anchor).env("DISPLAY", &display).env("LIBGL_ALWAYS_SOFTWARE", "1");
    vite.env("QT_LOGGING_RULES", "*=false").stdin(Stdio::null());
    let mut viewer = Running(vite.spawn().context("start vite")?);
    let wait = Duration::from_secs(args.wait);
    watch(&mut viewer, wait / 2)?;
    fill_screen(&display)?;
    watch(&mut viewer, wait / 2)?;
    process::run(Command::new("import").args(["-display", &display, "-window", "root"]).arg(&args.picture))?;
    println!("   saved {}", args.picture.display());
    Ok(())
}

/// Lets the viewer draw for a while.
fn watch(viewer: &mut Running, wait: Duration) -> Result<()> {
    let end = Instant::now() + wait;
    while Instant::now() < end {
        if let Some(status) = viewer.0.try_wait().context("wait for vite")? {
            bail!("vite ended early with {status}: it cannot show this archive");
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
        .context("start Xvfb")?;
    let mut number = String::new();
    if let Some(stdout) = server.stdout.take() {
        // It writes one line when it is ready.
        std::io::BufReader::new(stdout).read_line(&mut number).context("read from Xvfb")?;
    }
    let server = Running(server);
    if number.trim().is_empty() {
        bail!("Xvfb did not start with a screen of {size}");
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
