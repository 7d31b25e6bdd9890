// A forwarder in stages on two workers: one receives, checks and sends, the other computes on each packet. Every packet changes
// workers twice. It shows what handing over costs:
//
//   junctor plan --cores 2 --queues 1 conf/pipeline.click
//   junctor run -j 2 conf/pipeline.click IN=eth0 OUT=eth1
//
// bench: in length=60 flows=1024 share=64
// bench: out length=60
define($IN in, $OUT out, $METHOD auto);

from :: FromDevice($IN, METHOD $METHOD)
    -> Strip(14) -> CheckIPHeader
    -> Queue -> stage :: Unqueue
    -> Work(60) -> DecIPTTL
    -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02)
    -> Queue -> to :: ToDevice($OUT, METHOD $METHOD);

StaticThreadSched(stage 1, to 0, WRAP true);
