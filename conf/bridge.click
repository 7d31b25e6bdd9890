// A learning bridge between two interfaces, which all workers run at once.
//
//   junctor run conf/bridge.click            on interfaces eth0 and eth1
//   junctor run conf/bridge.click DEV0=lan0 DEV1=lan1
//   junctor bench engine conf/bridge.click   on in-memory devices with this traffic, of 10000 stations:
// bench: eth0 from=02:00:00:01:00:00 to=02:00:00:02:00:00 stations=5000 flows=8192 length=60
// bench: eth1 from=02:00:00:02:00:00 to=02:00:00:01:00:00 stations=5000 flows=8192 length=60

define($DEV0 eth0, $DEV1 eth1, $METHOD auto);

bridge :: Bridge(AGEING 300);

FromDevice($DEV0, METHOD $METHOD, PROMISC true) -> [0]bridge[0] -> ToDevice($DEV0, METHOD $METHOD);
FromDevice($DEV1, METHOD $METHOD, PROMISC true) -> [1]bridge[1] -> ToDevice($DEV1, METHOD $METHOD);
