// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capture files as devices: one that is received from, one that is sent to.
//!
//! A received packet carries its capture time as its timestamp, and the bytes that the capture cut off in the extra
//! length annotation. A sent packet is written with the same two, or with the time of writing when it has none.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use packet::port::{Device, Error, Info, QueueStats, RxQueue, TxQueue};
use packet::{Batch, HEADROOM, Packet, anno};

use super::{CaptureError, Format, Reader, Writer};
use crate::memory::Taken;
use crate::sys::{self, Counters};

fn explain(path: &str, error: &CaptureError) -> Error {
    let mend = match error {
        CaptureError::Io(e) if e.kind() == std::io::ErrorKind::NotFound => "no such file; see the path",
        CaptureError::Io(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            "see its permissions: ls -l"
        }
        CaptureError::NotCapture(_) => "convert it with `editcap` or `text2pcap`",
        CaptureError::Truncated { .. } => "`editcap FILE NEW` keeps the whole packets",
        _ => "",
    };
    Error::new(path, error, mend)
}

fn info(path: &str, driver: &str) -> Info {
    Info {
        name: path.to_owned(),
        driver: driver.to_owned(),
        mac: None,
        mtu: 65535,
        rx_queues: 1,
        tx_queues: 1,
    }
}

/// A capture file to be received from, once.
pub struct FileReader {
    path: String,
    link_type: u32,
    headroom: usize,
    reader: Mutex<Option<Reader>>,
    taken: Arc<AtomicBool>,
}

impl FileReader {
    /// Opens a capture file; `-` is standard input.
    ///
    /// # Errors
    /// The file cannot be read, is no capture file, or is damaged before its first packet.
    pub fn open(path: &str, headroom: usize) -> Result<FileReader, Error> {
        let mut reader = super::open(path).map_err(|e| explain(path, &e))?;
        let link_type = reader.link_type().map_err(|e| explain(path, &e))?;
        let headroom = if headroom == 0 { HEADROOM } else { headroom };
        Ok(FileReader {
            path: path.to_owned(),
            link_type,
            headroom,
            reader: Mutex::new(Some(reader)),
            taken: Arc::default(),
        })
    }
}

impl Device for FileReader {
    fn info(&self) -> Info {
        Info { tx_queues: 0, ..info(&self.path, "capture file, read") }
    }

    fn rx(&self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        let taken = Taken::only(&self.path, &self.taken, queue)?;
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        let reader =
            reader.ok_or_else(|| Error::new(&self.path, "the file was read already", "open it again"))?;
        Ok(Box::new(FileRx {
            path: self.path.clone(),
            link_type: self.link_type,
            headroom: self.headroom,
            reader: Some(reader),
            bytes: Vec::new(),
            fault: None,
            counters: Counters::default(),
            _taken: taken,
        }))
    }

    fn tx(&self, _queue: usize) -> Result<Box<dyn TxQueue>, Error> {
        Err(Error::new(&self.path, "the file is open for reading", "write to another"))
    }

    fn link_type(&self) -> u32 {
        self.link_type
    }
}

struct FileRx {
    path: String,
    /// That of the first packet. A device has one.
    link_type: u32,
    headroom: usize,
    /// `None` after the end or the first damage.
    reader: Option<Reader>,
    bytes: Vec<u8>,
    fault: Option<Error>,
    counters: Counters,
    _taken: Taken,
}

impl RxQueue for FileRx {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        let (mut n, mut total) = (0, 0);
        while n < max {
            let Some(reader) = &mut self.reader else { break };
            let record = match reader.next(&mut self.bytes) {
                Ok(Some(record)) => record,
                Ok(None) => {
                    self.reader = None;
                    break;
                }
                Err(e) => {
                    self.fault = Some(explain(&self.path, &e));
                    self.counters.errors(1);
                    self.reader = None;
                    break;
                }
            };
            if record.link_type != self.link_type {
                let (others, ours) = (record.link_type, self.link_type);
                let what =
                    format!("holds packets of link type {others} beside those of {ours}, which are left out");
                self.fault.get_or_insert(Error::new(&self.path, what, "read it with FromDump"));
                self.counters.errors(1);
                continue;
            }
            let Some(mut packet) = Packet::copy_with_headroom(self.headroom, &self.bytes) else {
                self.counters.no_memory(1);
                continue;
            };
            packet.set_timestamp_ns(record.timestamp_ns);
            if record.wire_len > record.captured {
                packet.set_anno_u32(anno::EXTRA_LENGTH, (record.wire_len - record.captured) as u32);
            }
            total += self.bytes.len();
            n += 1;
            batch.push(packet);
        }
        self.counters.moved(n, total);
        n
    }

    fn ended(&self) -> bool {
        self.reader.is_none()
    }

    fn fault(&self) -> Option<Error> {
        self.fault.clone()
    }

    fn stats(&self) -> QueueStats {
        self.counters.read()
    }
}

/// A capture file to be sent to. The file is created when its queue is taken.
#[derive(Debug)]
pub struct FileWriter {
    path: PathBuf,
    format: Format,
    link_type: u32,
    snaplen: usize,
    taken: Arc<AtomicBool>,
}

impl FileWriter {
    /// A file to be written in `format`; `-` is standard output.
    pub fn new(path: &str, format: Format, link_type: u32, snaplen: usize) -> FileWriter {
        FileWriter { path: path.into(), format, link_type, snaplen, taken: Arc::default() }
    }

    fn path(&self) -> String {
        self.path.display().to_string()
    }
}

impl Device for FileWriter {
    fn info(&self) -> Info {
        Info { rx_queues: 0, ..info(&self.path(), "capture file, written") }
    }

    fn rx(&self, _queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        Err(Error::new(&self.path(), "the file is open for writing", "read from another"))
    }

    fn tx(&self, queue: usize) -> Result<Box<dyn TxQueue>, Error> {
        let taken = Taken::only(&self.path(), &self.taken, queue)?;
        let writer = super::create(&self.path, self.format, self.link_type, self.snaplen);
        let writer = writer.map_err(|e| explain(&self.path(), &e.into()))?;
        Ok(Box::new(FileTx {
            path: self.path(),
            writer,
            fault: None,
            counters: Counters::default(),
            _taken: taken,
        }))
    }

    fn link_type(&self) -> u32 {
        self.link_type
    }
}

struct FileTx {
    path: String,
    writer: Writer,
    fault: Option<Error>,
    counters: Counters,
    _taken: Taken,
}

impl FileTx {
    fn note(&mut self, result: std::io::Result<()>) -> bool {
        if let Err(e) = result {
            self.fault.get_or_insert_with(|| explain(&self.path, &e.into()));
            return false;
        }
        true
    }
}

impl TxQueue for FileTx {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let (mut good, mut bytes, mut now) = (0, 0, 0);
        for packet in batch.iter() {
            let timestamp = match packet.timestamp_ns() {
                0 => {
                    now = if now == 0 { sys::wall_clock_ns() } else { now };
                    now
                }
                ns => ns,
            };
            let wire_len = packet.len() + packet.anno_u32(anno::EXTRA_LENGTH) as usize;
            let written = self.writer.write(timestamp, wire_len, packet.data());
            if self.note(written) {
                good += 1;
                bytes += packet.len();
            }
        }
        let n = batch.len();
        batch.free_all();
        self.counters.moved(good, bytes);
        self.counters.errors(n - good);
        n
    }

    fn flush(&mut self) {
        let flushed = self.writer.flush();
        self.note(flushed);
    }

    fn fault(&self) -> Option<Error> {
        self.fault.clone()
    }

    fn stats(&self) -> QueueStats {
        self.counters.read()
    }
}

impl Drop for FileTx {
    fn drop(&mut self) {
        self.flush();
    }
}
