//! `cargo xtask screenshot`: a picture of an archive, made by a viewer that is not ours, or of a report.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::readers::anchor;
use crate::error::missing;
use crate::packages::{self, CHROMIUM, IMAGEMAGICK, VITE, XDOTOOL, XVFB};
use crate::process::{self, heading};

/// Take a picture of an archive in the viewer ViTE on a virtual display, or of a report in Chromium
///
/// Installs xvfb, vite, xdotool and imagemagick; for a report chromium.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// An anchor file (traces.otf2), the folder that has it, or a page (*.html)
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
    if args.archive.extension().is_some_and(|extension| extension == "html") {
        return page(args);
    }
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

/// What a browser shows of a page.
fn page(args: &Args) -> Result<()> {
    packages::ensure(&[CHROMIUM])?;
    heading("screenshot");
    let page = std::fs::canonicalize(&args.archive)
        .map_err(|error| missing(format!("there is no page {}: {error}", args.archive.display())))?;
    let picture = std::path::absolute(&args.picture).context("understand where to save")?;
    let browser = std::env::var_os("CHROMIUM").unwrap_or_else(|| "chromium".into());
    let mut browser = Command::new(browser);
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
    browser.arg(format!("--virtual-time-budget={}", 1000 * args.wait));
    browser.arg(format!("--window-size={}", args.size.replace('x', ",")));
    browser.arg(format!("--screenshot={}", picture.display())).arg(format!("file://{}", page.display()));
    process::run(browser.stderr(Stdio::null()))?;
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
