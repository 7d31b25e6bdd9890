// SPDX-License-Identifier: MIT OR Apache-2.0
//! Route files, with any compression: reading them, and how far that has come.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tables::routes::{Options, Routes};

use crate::Error;

/// Reads all `files`, by their beginnings where `options` do not say their form.
///
/// # Errors
/// Which file cannot be read, and why, for people.
pub fn read(files: &[PathBuf], options: &Options) -> Result<Routes, Error> {
    let mut routes = Routes::default();
    for file in files {
        let name = shown(file);
        let progress = Progress::start(&name, size(file));
        let mut input = open(file, &progress).map_err(|why| Error::File { file: name.clone(), why })?;
        routes.read(&name, &mut input, options)?;
    }
    Ok(routes)
}

/// The file's name in messages.
pub fn shown(file: &Path) -> String {
    if is_stdin(file) { "standard input".to_owned() } else { file.display().to_string() }
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

fn size(file: &Path) -> u64 {
    if is_stdin(file) { 0 } else { std::fs::metadata(file).map_or(0, |data| data.len()) }
}

/// Opens a file, or standard input for `-`, and decompresses what begins like something compressed.
fn open(file: &Path, progress: &Progress) -> io::Result<Box<dyn BufRead>> {
    let raw: Box<dyn Read> = if is_stdin(file) { Box::new(io::stdin()) } else { Box::new(File::open(file)?) };
    let mut input = BufReader::with_capacity(1 << 16, Counted { raw, count: progress.read.clone() });
    let begin = input.fill_buf()?;
    let roomy = |inner: Box<dyn Read>| Box::new(BufReader::with_capacity(1 << 16, inner));
    Ok(if begin.starts_with(b"\x1f\x8b") {
        roomy(Box::new(flate2::bufread::MultiGzDecoder::new(input)))
    } else if begin.starts_with(b"BZh") {
        roomy(Box::new(bzip2::bufread::MultiBzDecoder::new(input)))
    } else if begin.starts_with(b"\xfd7zXZ\0") {
        roomy(Box::new(lzma_rust2::XzReader::new(input, true)))
    } else {
        Box::new(input)
    })
}

/// Counts the bytes that pass.
struct Counted {
    raw: Box<dyn Read>,
    count: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.raw.read(into)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// A line on the terminal that shows, after the first second, how far a file has been read; gone when dropped.
struct Progress {
    read: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
    shower: Option<JoinHandle<()>>,
}

impl Progress {
    fn start(name: &str, total: u64) -> Progress {
        let (read, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let shower = io::stderr().is_terminal().then(|| {
            let (name, read, done) = (name.to_owned(), read.clone(), done.clone());
            std::thread::spawn(move || show(&name, total, &read, &done))
        });
        Progress { read, done, shower }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        if let Some(shower) = self.shower.take() {
            shower.thread().unpark();
            let _ = shower.join();
        }
    }
}

fn show(name: &str, total: u64, read: &AtomicU64, done: &AtomicBool) {
    let start = Instant::now();
    let mut shown = false;
    while !done.load(Ordering::Acquire) {
        std::thread::park_timeout(Duration::from_millis(200));
        if start.elapsed() >= Duration::from_secs(1) && !done.load(Ordering::Acquire) {
            err!("\r\x1b[K{}", bar(name, read.load(Ordering::Relaxed), total));
            shown = true;
        }
    }
    if shown {
        err!("\r\x1b[K");
    }
}

/// `reading NAME [#####     ]  50 %`, or the bytes read where the size is not known.
fn bar(name: &str, read: u64, total: u64) -> String {
    const WIDTH: usize = 30;
    if total == 0 {
        return format!("reading {name}: {:.1} MB", read as f64 / 1e6);
    }
    let share = (read as f64 / total as f64).min(1.0);
    let full = (share * WIDTH as f64) as usize;
    format!("reading {name} [{}{}] {:3.0} %", "#".repeat(full), " ".repeat(WIDTH - full), share * 100.0)
}

/// A file of `shared/data` in this directory or one above it.
pub fn shared(name: &str) -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().map(|dir| dir.join(Path::new("shared/data")).join(name)).find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn bars() {
        assert_eq!(bar("x", 0, 10), format!("reading x [{}]   0 %", " ".repeat(30)));
        assert_eq!(bar("x", 5, 10), format!("reading x [{}{}]  50 %", "#".repeat(15), " ".repeat(15)));
        assert_eq!(bar("x", 99, 10), format!("reading x [{}] 100 %", "#".repeat(30)));
        assert_eq!(bar("x", 1_500_000, 0), "reading x: 1.5 MB");
    }
}
