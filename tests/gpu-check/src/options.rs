//! The command line. Parsed by hand: the program has few options, and its folder has to stay small.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const HELP: &str = "\
Finds out on a machine with a GPU what only a GPU can show, prints a table and writes JSON.

Usage: DIR/gpu-check [OPTIONS]

  --nccl PATH      libnccl.so.2         (default for all three: LD_LIBRARY_PATH, then the Python packages of the
  --cudart PATH    libcudart.so.13, .12  python3 on PATH and of the usual folders, then CUDA_HOME and
  --cupti PATH     libcupti.so.13, .12   /usr/local/cuda, then the system's folders)
  --python PATH    a python3 that has PyTorch (default: python3 on PATH, where it has it)
  --only LIST      only these checks, by name or number, separated by commas
  --limit SECONDS  end within this time (570)
  --json FILE      where the results go (gpu-check.json)
  --work DIR       where files go meanwhile (a folder in TMPDIR or /tmp, removed at the end)
  --fake-gpu       without a GPU: run what can be run on the doubles of this folder, to test the checks themselves;
                   needs --nccl
  --list           print the checks and what each settles, and run nothing

A check that does not end is killed at its own time limit. Exit status: 0 no check failed, 1 one did, 2 usage, or
something is missing here.
";

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Wanted {
    Checks(Options),
    Probe(ProbeRequest),
    Help,
    List,
}

/// What to run, and on what.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) nccl: Option<PathBuf>,
    pub(crate) cudart: Option<PathBuf>,
    pub(crate) cupti: Option<PathBuf>,
    pub(crate) python: Option<PathBuf>,
    pub(crate) only: Option<Vec<String>>,
    pub(crate) limit: Duration,
    pub(crate) json: PathBuf,
    pub(crate) work: Option<PathBuf>,
    pub(crate) fake_gpu: bool,
}

/// One question to CUPTI and the driver, to be answered by this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProbeRequest {
    pub(crate) name: String,
    pub(crate) cupti: Option<PathBuf>,
    pub(crate) cudart: Option<PathBuf>,
    /// The driver's file, where it is not the system's `libcuda.so.1`.
    pub(crate) driver: Option<PathBuf>,
    /// Both are doubles.
    pub(crate) double: bool,
}

/// Reads the words behind the program's name.
pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Wanted, String> {
    let mut options = Options {
        nccl: None,
        cudart: None,
        cupti: None,
        python: None,
        only: None,
        limit: Duration::from_secs(570),
        json: "gpu-check.json".into(),
        work: None,
        fake_gpu: false,
    };
    let mut probe = ProbeRequest::default();
    let mut is_probe = false;
    let mut words = words;
    while let Some(word) = words.next() {
        let name = word.to_string_lossy().into_owned();
        let mut value = || words.next().ok_or_else(|| format!("{name} needs a value"));
        match name.as_str() {
            "--nccl" => options.nccl = Some(value()?.into()),
            "--cudart" => options.cudart = Some(value()?.into()),
            "--cupti" => options.cupti = Some(value()?.into()),
            "--python" => options.python = Some(value()?.into()),
            "--json" => options.json = value()?.into(),
            "--work" => options.work = Some(value()?.into()),
            "--only" => {
                let list = value()?.to_string_lossy().into_owned();
                options.only = Some(list.split(',').map(str::to_owned).collect());
            }
            "--limit" => {
                let text = value()?.to_string_lossy().into_owned();
                let seconds: u64 = text
                    .parse()
                    .map_err(|_| format!("--limit {text}: not a number of seconds"))?;
                options.limit = Duration::from_secs(seconds);
            }
            "--fake-gpu" => options.fake_gpu = true,
            "--list" => return Ok(Wanted::List),
            "-h" | "--help" => return Ok(Wanted::Help),
            "--probe" => {
                is_probe = true;
                probe.name = value()?.to_string_lossy().into_owned();
            }
            "--driver" => probe.driver = Some(value()?.into()),
            "--double" => probe.double = true,
            other => return Err(format!("`{other}` is not an option\n\n{HELP}")),
        }
    }
    if is_probe {
        probe.cupti = options.cupti;
        probe.cudart = options.cudart;
        return Ok(Wanted::Probe(probe));
    }
    if options.fake_gpu && options.nccl.is_none() {
        return Err(
            "--fake-gpu needs --nccl: there is none to be found where no GPU is".to_owned(),
        );
    }
    Ok(Wanted::Checks(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Wanted, String> {
        parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn options_are_read() {
        let Ok(Wanted::Checks(options)) = words("--only 1,overhead --limit 60 --nccl /x") else {
            panic!("checks are wanted");
        };
        assert_eq!(options.only.unwrap(), ["1", "overhead"]);
        assert_eq!(options.limit, Duration::from_secs(60));
        assert_eq!(options.nccl.unwrap(), PathBuf::from("/x"));
        assert!(matches!(words("--probe ids --double"), Ok(Wanted::Probe(probe)) if probe.double));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (line, says) in [
            ("--limit soon", "soon"),
            ("--nccl", "needs a value"),
            ("--fake-gpu", "needs --nccl"),
            ("--real", "`--real`"),
        ] {
            let message = words(line).unwrap_err();
            assert!(message.contains(says), "{message}");
        }
    }
}
