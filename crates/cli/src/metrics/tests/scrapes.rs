//! Scrapes: authorised and not, frequent, malformed, and stalled.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::metrics::Outputs;
use crate::metrics::http::{Format, Latest, OutputErrors, Page, Server};
use crate::metrics::tests::{ours, request};

pub(super) fn serve(token: Option<&str>) -> (SocketAddr, Arc<Latest>, Arc<OutputErrors>) {
    let (latest, errors) = (Arc::<Latest>::default(), Arc::<OutputErrors>::default());
    let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
    let token = token.map(str::to_owned);
    let server = Server { latest: Arc::clone(&latest), errors: Arc::clone(&errors), token };
    (server.start(listener).expect("started"), latest, errors)
}

/// The response to these bytes, read until the connection is closed.
fn ask(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    stream.write_all(bytes).expect("asked");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("answered and closed");
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(address: SocketAddr, rest: &str) -> String {
    ask(address, format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{rest}\r\n").as_bytes())
}

#[test]
fn a_scraper_gets_the_format_that_it_asks_for() {
    let (address, latest, _troubles) = serve(None);
    assert!(get(address, "").starts_with("HTTP/1.1 503 "), "nothing is known yet");
    *latest.lock() = Some(Arc::new(Page::new(ours())));
    let plain = get(address, "");
    let (head, body) = plain.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{head}");
    assert_eq!(body, Format::Prometheus.write(&ours()));
    let open = get(address, "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n");
    assert!(open.contains("Content-Type: application/openmetrics-text; version=1.0.0"), "{open}");
    assert!(open.contains("# TYPE nccl_records counter\n") && open.ends_with("# EOF\n"), "{open}");
}

#[test]
fn a_thousand_scrapes_at_once_are_answered() {
    let (address, latest, errors) = serve(None);
    *latest.lock() = Some(Arc::new(Page::new(ours())));
    let expected = get(address, "");
    let scrape = |_| thread::Builder::new().stack_size(128 << 10).spawn(move || get(address, "")).expect("a thread");
    let scrapes: Vec<_> = (0..1000).map(scrape).collect();
    assert!(scrapes.into_iter().all(|scrape| scrape.join().expect("answered") == expected));
    assert_eq!(errors.refused.load(Ordering::Relaxed), 0);
}

#[test]
fn what_is_no_scrape_is_refused_and_closed() {
    let (address, latest, errors) = serve(None);
    *latest.lock() = Some(Arc::new(Page::new(ours())));
    let long = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 100_000]].concat();
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(1000));
    let garbage: [&[u8]; 5] =
        [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\r\n\0\0\xff\xff", b"GET\r\n\r\n", &long, many.as_bytes()];
    for bytes in garbage {
        let answer = ask(address, bytes);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    assert!(ask(address, b"GET /secrets HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask(address, b"POST /metrics HTTP/1.1\r\nContent-Length: 1\r\n\r\nx").starts_with("HTTP/1.1 405 "));
    assert_eq!(errors.refused.load(Ordering::Relaxed), 7);
    // Silent clients block nobody, and are dropped soon.
    let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address).expect("connected")).collect();
    let began = Instant::now();
    assert!(get(address, "").starts_with("HTTP/1.1 200 "));
    for mut stream in silent {
        assert_eq!(stream.read(&mut [0]).expect("closed"), 0);
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn who_has_a_token_shows_it() {
    let (address, latest, _troubles) = serve(Some("s3cret"));
    *latest.lock() = Some(Arc::new(Page::new(ours())));
    for shown in ["", "Authorization: Bearer s3cre\r\n", "Authorization: Basic s3cret\r\n"] {
        assert!(
            get(address, shown).starts_with("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\n"),
            "{shown}"
        );
    }
    assert!(get(address, "authorization: bearer s3cret\r\n").starts_with("HTTP/1.1 200 "));
}

#[test]
fn non_loopback_listen_requires_token() {
    let why = |arguments: &[&str]| Outputs::open(&request(arguments)).err().map(|error| format!("{error:#}"));
    let error = why(&["--listen", "0.0.0.0:0"]).expect("refused");
    assert!(error.contains("--token-file") && error.contains("--anonymous"), "{error}");
    assert_eq!(why(&["--listen", "0.0.0.0:0", "--anonymous"]), None);
    assert_eq!(why(&["--listen", "[::1]:0"]), None);
    let empty = tempfile::NamedTempFile::new().expect("a file");
    for (file, reason) in [
        ("/dev/null", "device"),
        (
            empty.path().to_str().expect("a path"),
            ": the file has no \
        token",
        ),
    ] {
        let error = why(&["--listen", "127.0.0.1:0", "--token-file", file]).expect("refused");
        assert!(error.contains(file) && error.contains(reason), "{error}");
    }
    assert!(why(&[]).expect("refused").contains("--listen"));
    assert!(why(&["--otlp", "localhost:4318"]).expect("refused").contains("http://localhost:4318"));
    assert!(why(&["--textfile", "nowhere"]).expect("refused").contains("nowhere"));
}
