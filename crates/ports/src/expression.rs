// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filter expressions, compiled by the machine's own libpcap.
//!
//! The language of tcpdump is what libpcap's compiler takes, so that compiler is used: the library is opened when the
//! first expression is met, and a machine without it runs everything else. Four of its functions are called, whose
//! form has not changed in twenty years: `pcap_open_dead`, `pcap_compile`, `pcap_geterr`, `pcap_freecode`, and
//! `pcap_close` afterwards. A "dead" handle stands for no device, so the program is one for whole frames, with VLAN
//! tags in place.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use packet::filter::{Filter, Instruction};
use packet::port::{Error, link_type};

/// Bytes of a frame that filters let pass: all of them.
pub(crate) const WHOLE: u32 = 262_144;
/// The netmask is only used for `ip broadcast`, which is refused without it.
const UNKNOWN_NETMASK: u32 = 0xffff_ffff;

/// `struct bpf_program`.
#[repr(C)]
struct Program {
    len: c_uint,
    instructions: *mut Instruction,
}

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Compile = unsafe extern "C" fn(*mut c_void, *mut Program, *const c_char, c_int, u32) -> c_int;
type Geterr = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type Freecode = unsafe extern "C" fn(*mut Program);
type Close = unsafe extern "C" fn(*mut c_void);

/// The functions of libpcap.
struct Library {
    open_dead: OpenDead,
    compile: Compile,
    geterr: Geterr,
    freecode: Freecode,
    close: Close,
}

impl Library {
    /// Opens the library, for as long as the process lasts.
    fn open() -> Option<Library> {
        let names = [c"libpcap.so.0.8", c"libpcap.so.1", c"libpcap.so"];
        // SAFETY: the library's constructors touch nothing of ours.
        let library =
            names.iter().map(|n| unsafe { libc::dlopen(n.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) });
        let library = library.into_iter().find(|l| !l.is_null())?;
        let function = |name: &CStr| {
            // SAFETY: the library is open and stays so.
            let at = unsafe { libc::dlsym(library, name.as_ptr()) };
            (!at.is_null()).then_some(at)
        };
        let (open_dead, compile) = (function(c"pcap_open_dead")?, function(c"pcap_compile")?);
        let (geterr, freecode) = (function(c"pcap_geterr")?, function(c"pcap_freecode")?);
        let close = function(c"pcap_close")?;
        // SAFETY: these are the functions' types in pcap/pcap.h, the same in all versions under these names.
        Some(unsafe {
            Library {
                open_dead: std::mem::transmute::<*mut c_void, OpenDead>(open_dead),
                compile: std::mem::transmute::<*mut c_void, Compile>(compile),
                geterr: std::mem::transmute::<*mut c_void, Geterr>(geterr),
                freecode: std::mem::transmute::<*mut c_void, Freecode>(freecode),
                close: std::mem::transmute::<*mut c_void, Close>(close),
            }
        })
    }

    /// The program of an expression, or the library's words about it.
    fn compile(&self, expression: &CStr, link: u32) -> Result<Vec<Instruction>, String> {
        // Versions before 1.8 compile in static variables.
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: touches no memory of ours.
        let handle = unsafe { (self.open_dead)(pcap_link_type(link) as c_int, WHOLE as c_int) };
        if handle.is_null() {
            return Err("libpcap has no memory".to_owned());
        }
        let mut program = Program { len: 0, instructions: std::ptr::null_mut() };
        let text = expression.as_ptr();
        // SAFETY: the handle is open, the expression ends by a zero, and `program` is written once the call succeeds;
        // its instructions are then `len` values of libpcap's, which live until they are given back. The message is the
        // handle's and copied before that closes.
        unsafe {
            let compiled = match (self.compile)(handle, &mut program, text, 1, UNKNOWN_NETMASK) {
                0 => {
                    let code =
                        std::slice::from_raw_parts(program.instructions, program.len as usize).to_vec();
                    (self.freecode)(&mut program);
                    Ok(code)
                }
                _ => Err(CStr::from_ptr((self.geterr)(handle)).to_string_lossy().into_owned()),
            };
            (self.close)(handle);
            compiled
        }
    }
}

/// The number by which the library's interface, other than its files, knows a link type.
fn pcap_link_type(link: u32) -> u32 {
    const DLT_RAW: u32 = 12;
    if link == link_type::RAW { DLT_RAW } else { link }
}

/// Compiles an expression for frames of this link type.
///
/// # Errors
/// There is no libpcap, or it refuses the expression.
pub(crate) fn compile(expression: &str, link: u32) -> Result<Filter, Error> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    let error = |what: String, mend: &str| Error::new(&format!("filter '{expression}'"), what, mend);
    let Some(library) = LIBRARY.get_or_init(Library::open) else {
        let mend = "install it (Debian, Ubuntu: apt install libpcap0.8; Fedora: dnf install libpcap), \
                    or put a Classifier or an IPFilter behind";
        return Err(error("there is no libpcap on this machine to compile it".to_owned(), mend));
    };
    let text = CString::new(expression).map_err(|_| error("it has a zero byte".to_owned(), ""))?;
    let program = library.compile(&text, link).map_err(|why| {
        let refused = |text: &str| library.compile(&CString::new(text).ok()?, link).err();
        let place = place(expression, &why, refused).unwrap_or_default();
        error(why + &place, "man pcap-filter describes filters")
    })?;
    Filter::new(program).ok_or_else(|| error("libpcap made a program that cannot be right".to_owned(), ""))
}

/// A number that libpcap's scanner refuses with words of its own.
const TOO_LARGE: &str = "99999999999999999999";

/// Where a syntax error is, which libpcap does not say: behind a beginning that its parser takes, the scanner comes to a number and refuses that instead.
/// Nothing where the library is too old for such words.
fn place(expression: &str, why: &str, refused: impl Fn(&str) -> Option<String>) -> Option<String> {
    let takes =
        |text: &str| refused(&format!("{text} {TOO_LARGE}")).is_some_and(|why| why.contains(TOO_LARGE));
    if !why.contains("syntax error") || !takes("") {
        return None;
    }
    let ends = expression.split_whitespace().map(|word| (word, word.as_ptr() as usize + word.len()));
    let begin = expression.as_ptr() as usize;
    let bad = ends.map(|(word, end)| (word, &expression[..end - begin])).find(|(_, text)| !takes(text));
    Some(bad.map_or(", it ends too early".to_owned(), |(word, _)| format!(", at '{word}'")))
}

/// The program to be run by the kernel, which sees a frame before we do: a VLAN tag lies next to the frame, so what has one
/// passes, to be judged when the tag is back in its place.
pub(crate) fn for_kernel(filter: &Filter) -> Vec<libc::sock_filter> {
    const VLAN_TAG_PRESENT: u32 = 0xffff_f000 + 48;
    let tagged = [
        Instruction::new(0x20, 0, 0, VLAN_TAG_PRESENT), // A = whether there is a tag
        Instruction::new(0x15, 1, 0, 0),                // none: skip the next
        Instruction::new(0x06, 0, 0, WHOLE),            // accept
    ];
    let all = tagged.iter().chain(filter.instructions());
    all.map(|i| libc::sock_filter { code: i.code, jt: i.if_true, jf: i.if_false, k: i.k }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the library is there; says so where it is not.
    fn there(test: &str) -> bool {
        let there = Library::open().is_some();
        if !there {
            eprintln!("{test} skipped: no libpcap");
        }
        there
    }

    #[test]
    fn expressions_become_programs() {
        if !there("expressions_become_programs") {
            return;
        }
        let mut arp = [0; 60];
        (arp[12], arp[13]) = (8, 6);
        for (expression, link, accepts) in [
            ("arp", link_type::ETHERNET, true),
            ("ip", link_type::ETHERNET, false),
            ("", link_type::ETHERNET, true),
            ("less 60", link_type::ETHERNET, true),
            ("greater 61", link_type::ETHERNET, false),
            ("vlan", link_type::ETHERNET, false),
            ("ip", link_type::RAW, false),
        ] {
            let filter = compile(expression, link).unwrap();
            assert_eq!(filter.accepts(&arp, 60), accepts, "{expression}");
            assert_eq!(filter.asks_length(), expression.contains("60") || expression.contains("61"));
        }
        let mut ip = [0; 20];
        ip[0] = 0x45;
        assert!(compile("ip", link_type::RAW).unwrap().accepts(&ip, 20));
    }

    #[test]
    fn errors_are_the_librarys() {
        if !there("errors_are_the_librarys") {
            return;
        }
        for (expression, words) in [
            ("tcp prt 80", "syntax error"),
            ("ip host 1.2.3.400", "1.2.3.400"),
            ("port", "syntax error"),
            ("tcp prt 80", "at 'prt'"),
            ("udp port 53 and and host 1.2.3.4", "at 'and'"),
            ("(tcp", "ends too early"),
            ("ether proto nonesuch", "nonesuch"),
            ("a\0b", "zero byte"),
        ] {
            let error = compile(expression, link_type::ETHERNET).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("filter '{expression}': ")) && error.contains(words),
                "{error}"
            );
        }
    }
}
