// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an element is: a class with a descriptor, and instances that process batches.
//!
//! An element author writes one [`Class`] and implements [`Element`]. Most elements override a single method:
//!
//! * one input, one main output, push or pull as its neighbours want: [`Element::process`];
//! * a push input with several outputs: [`Element::push`];
//! * a pull output that chooses among inputs: [`Element::pull`];
//! * a source or a sink that acts by itself: [`Element::run_task`] or [`Element::run_timer`].
//!
//! Nobody writes a lock: the class names its [`Sharing`], and the engine makes the instances so that an element's
//! `&mut self` is always exclusive.

use std::any::Any;
use std::sync::Arc;

use packet::Batch;

use crate::args::Args;
use crate::capability::Capabilities;
use crate::clock::Nanos;
use crate::cx::{Cx, InitCx, OpenCx};
use crate::error::HandlerError;
use crate::handler::{Llrpc, Merge, Signature};
use crate::hide::Find;
use crate::program::{Op, Program};

/// How the instances of a class behave when several workers reach an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One independent instance per worker; handlers read the sum and write to all.
    PerCore,
    /// One instance per worker over common, internally concurrent state ([`SharedState`](crate::SharedState)).
    Shared,
    /// Like [`Sharing::Shared`], but independent per worker whenever every worker that fills the element also
    /// drains it, so that packets stay on their core: a queue before a device with a transmit queue per core.
    Queue,
    /// One instance that one worker may run at a time; guarded by a lock when several workers reach it.
    Serial,
}

/// The argument that names an element's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceArg {
    /// The first one, which may be given by its keyword.
    First(&'static str),
    /// A keyword. Without it the kernel chooses a name.
    Keyword(&'static str),
}

/// The descriptor of an element class.
#[derive(Debug)]
pub struct Class {
    /// The name in configurations.
    pub name: &'static str,
    /// Port counts, as Click writes them: `1/1`, `1-/=`, `0/1-2`, `1/-6`, `=+`.
    pub ports: &'static str,
    /// Processing code: `h` push, `l` pull, `a` agnostic; inputs `/` outputs, the last letter repeats.
    pub processing: &'static str,
    /// Flow code: which inputs lead to which outputs; `x/x` when all lead to all.
    pub flow: &'static str,
    /// What the engine does when several workers reach an element.
    pub sharing: Sharing,
    /// Why its elements must stay one, for those of [`Sharing::Serial`]; empty otherwise.
    pub why_one: &'static str,
    /// Handlers beyond those that every element has.
    pub handlers: &'static [Handler],
    /// What programs call by Click's numbers.
    pub llrpcs: &'static [Llrpc],
    /// What its elements do with a packet leaves nothing behind: they remember, count and learn nothing by it, and send by outputs only.
    pub pure: bool,
    /// Whether `config` can be written while elements run.
    pub reconfigurable: bool,
    /// Its elements make others of packets that they hold, and end those: fragments that they put together.
    pub consumes: bool,
    /// All packets pushed into its elements leave by every output that its flow code names, for any packet and configuration:
    /// none of them is ended, kept or sent another way.
    pub forwards: bool,
    /// What the first argument of its elements names, if only one element may have it.
    pub sole: Option<&'static str>,
    /// Which argument names the device, or the end of a channel, that its elements open.
    pub device: Option<DeviceArg>,
    /// Finds the secrets in an argument, which handlers, recordings and messages do not show.
    pub secrets: Option<Find>,
    /// What its elements can do besides processing packets.
    pub capabilities: Capabilities,
    /// Makes an unconfigured instance.
    pub make: fn() -> Box<dyn Element>,
    /// The file that implements the class and holds its manual: `file!()`.
    pub file: &'static str,
}

impl Class {
    /// A descriptor with the commonest properties: agnostic, one copy per core, no handlers.
    pub const fn new(name: &'static str, ports: &'static str, make: fn() -> Box<dyn Element>) -> Class {
        Class {
            name,
            ports,
            processing: "a/a",
            flow: "x/x",
            sharing: Sharing::PerCore,
            why_one: "",
            handlers: &[],
            llrpcs: &[],
            pure: false,
            reconfigurable: false,
            consumes: false,
            forwards: false,
            sole: None,
            device: None,
            secrets: None,
            capabilities: Capabilities::NONE,
            make,
            file: "",
        }
    }

    /// Sets the processing code.
    pub const fn processing(mut self, code: &'static str) -> Class {
        self.processing = code;
        self
    }

    /// Sets the flow code.
    pub const fn flow(mut self, code: &'static str) -> Class {
        self.flow = code;
        self
    }

    /// Sets the sharing class.
    pub const fn sharing(mut self, sharing: Sharing) -> Class {
        self.sharing = sharing;
        self
    }

    /// Makes it [`Sharing::Serial`], and says why: what all workers together must have one of.
    pub const fn serial(mut self, why_one: &'static str) -> Class {
        self.sharing = Sharing::Serial;
        self.why_one = why_one;
        self
    }

    /// Says that what its elements do with a packet leaves nothing behind, so that a packet may pass that is only tried
    /// (`junctor trace --packet`).
    pub const fn pure(mut self) -> Class {
        self.pure = true;
        self
    }

    /// Says that [`Element::configure`] may be called again while an element runs, so that its `config` can be written: all it does is
    /// to set the instance's own fields, and nothing that was made from them before goes stale.
    pub const fn reconfigurable(mut self) -> Class {
        self.reconfigurable = true;
        self
    }

    /// Says that its elements make others of packets that they hold, and end those, so that who follows one sees them by themselves.
    pub const fn consumes(mut self) -> Class {
        self.consumes = true;
        self
    }

    /// Says that all packets pushed into its elements leave by every output that the flow code names, so that a circle of such elements
    /// is known to turn for ever.
    pub const fn forwards(mut self) -> Class {
        self.forwards = true;
        self
    }

    /// Names a function that finds the secrets in an argument, or in a message that shows one: ranges of bytes in their order. Handlers, recordings and messages
    /// do not show them.
    pub const fn secrets(mut self, find: fn(&str) -> Vec<std::ops::Range<usize>>) -> Class {
        self.secrets = Some(find);
        self
    }

    /// Says that its elements open a device, or one end of a channel, which this argument names.
    pub const fn device(mut self, name: DeviceArg) -> Class {
        self.device = Some(name);
        self
    }

    /// Says that the first argument names something, a `what`, that only one element of the class can have.
    pub const fn sole(mut self, what: &'static str) -> Class {
        self.sole = Some(what);
        self
    }

    /// Sets the handlers.
    pub const fn handlers(mut self, handlers: &'static [Handler]) -> Class {
        self.handlers = handlers;
        self
    }

    /// Sets what programs call by Click's numbers.
    pub const fn llrpcs(mut self, llrpcs: &'static [Llrpc]) -> Class {
        self.llrpcs = llrpcs;
        self
    }

    /// Sets the file that holds the manual; give `file!()`.
    pub const fn file(mut self, file: &'static str) -> Class {
        self.file = file;
        self
    }
}

/// What a read handler does with the element.
pub type Read = fn(&mut dyn Element, &mut Cx<'_>, &str) -> Result<String, HandlerError>;

/// What a write handler does with the element.
pub type Write = fn(&mut dyn Element, &mut Cx<'_>, &str) -> Result<(), HandlerError>;

/// A handler of a class, and what it does. [`handlers!`](crate::handlers) makes them.
#[derive(Clone, Copy, Debug)]
pub struct Handler {
    /// What callers know of it.
    pub signature: Signature,
    /// What reading it does; [`OwnHandlers::read`](crate::OwnHandlers::read) where there is none.
    pub read: Option<Read>,
    /// What writing it does; [`OwnHandlers::write`](crate::OwnHandlers::write) where there is none.
    pub write: Option<Write>,
}

impl std::ops::Deref for Handler {
    type Target = Signature;

    fn deref(&self) -> &Signature {
        &self.signature
    }
}

impl Handler {
    /// A handler that the element answers itself.
    pub const fn new(signature: Signature) -> Handler {
        Handler { signature, read: None, write: None }
    }

    /// Sets what reading it does.
    pub const fn reads(mut self, read: Read) -> Handler {
        self.read = Some(read);
        self
    }

    /// Sets what writing it does.
    pub const fn writes(mut self, write: Write) -> Handler {
        self.write = Some(write);
        self
    }

    /// A read handler whose instances answer alike.
    pub const fn read(name: &'static str) -> Handler {
        Handler::new(Signature::read(name))
    }

    /// A read handler whose instances' numbers are added.
    pub const fn sum(name: &'static str) -> Handler {
        Handler::read(name).merge(Merge::Sum)
    }

    /// A write handler.
    pub const fn write(name: &'static str) -> Handler {
        Handler::new(Signature::write(name))
    }

    /// A handler that can be read and written.
    pub const fn both(name: &'static str) -> Handler {
        Handler::new(Signature::both(name))
    }

    /// See [`Signature::merge`].
    pub const fn merge(mut self, merge: Merge) -> Handler {
        self.signature = self.signature.merge(merge);
        self
    }

    /// See [`Signature::everywhere`].
    pub const fn everywhere(mut self) -> Handler {
        self.signature = self.signature.everywhere();
        self
    }

    /// See [`Signature::argument`].
    pub const fn argument(mut self, position: Option<usize>, keyword: &'static str) -> Handler {
        self.signature = self.signature.argument(position, keyword);
        self
    }

    /// See [`Signature::private`].
    pub const fn private(mut self) -> Handler {
        self.signature = self.signature.private();
        self
    }
}

/// How many tasks an element has, answered when it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tasks {
    /// It acts only when packets or timers reach it.
    None,
    /// It has one task (or timers, or file descriptors), on its home worker.
    One,
    /// It has up to this many tasks of equal kind, one per worker: one per queue of a device, say.
    Many(usize),
}

/// State that an element offers to others that name it, see [`Provide`](crate::Provide).
pub type Provided = Arc<dyn Any + Send + Sync>;

/// What is left of a handler's call when a worker has done its part. The thread that called does it, and workers go on.
pub type Rest<T> = Box<dyn FnOnce() -> Result<T, HandlerError> + Send>;

/// An instance of an element class.
///
/// The engine calls [`configure`](Element::configure), on the first instance [`open`](Element::open), then for each
/// instance [`initialize`](Element::initialize), and after that any of the processing methods. What only some elements can do has a
/// trait of its own, which their class declares: see [`capability`](crate::capability).
#[allow(unused_variables)]
pub trait Element: Send + Any {
    /// Reads the configuration string. Errors are gathered in `args`; the engine reports all of them.
    fn configure(&mut self, args: &mut Args<'_>);

    /// Opens what exists outside the process (devices, files, sockets), once for all instances, and says how many
    /// tasks there are. Not called by `check`.
    ///
    /// # Errors
    /// What was missing and how to fix it, for the user.
    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::None)
    }

    /// Prepares this instance on its worker: sets first timers, schedules its task, finds other elements.
    ///
    /// # Errors
    /// As for [`Element::open`].
    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Processes a batch on its way from input 0 to output 0, pushed or pulled: what it returns goes on.
    /// Packets for other outputs leave by [`Cx::push`].
    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        batch
    }

    /// Takes a batch that arrived at push input `port`.
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) {
        let batch = self.process(cx, batch);
        cx.push(0, batch);
    }

    /// Delivers up to `max` packets at pull output `port`; an empty batch when there are none.
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        let batch = cx.pull(0, max);
        if batch.is_empty() { batch } else { self.process(cx, batch) }
    }

    /// Publishes what it does to ordinary packets on their way from input 0 to output 0 at this time, so that a pass can do it together
    /// with what other elements do: see [`program`](crate::program). Without this it is run by itself.
    fn program<'a>(&'a self, now: Nanos, program: &mut dyn Program<'a>) {
        program.add(Op::Other);
    }

    /// Runs the element's task once; returns whether it found work. A task runs again and again until
    /// [`Cx::unschedule`]; tasks that find no work for a while let the worker sleep.
    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        false
    }

    /// A timer set by [`Cx::set_timer`] has expired.
    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {}

    /// Ends the instance on its worker: flushes files, closes devices. The router has stopped.
    fn finish(&mut self, cx: &mut Cx<'_>) {}
}

/// An element as what it is, if it is a `T`.
#[inline]
pub fn same<T: Element>(element: &mut dyn Element) -> Option<&mut T> {
    (element as &mut dyn Any).downcast_mut()
}
