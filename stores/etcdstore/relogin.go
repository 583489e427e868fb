package etcdstore

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// authenticate is the request in which a client logs in.
const authenticate = "/etcdserverpb.Auth/Authenticate"

// relogin returns a dial option for the client of cfg, which has a user and a password.
//
// A login ends when its token has not been used for some time, or when the member restarts. The
// client of etcd then logs in again, and sends the old token even in the request for the new one. A
// server of version 3.4 checks the old token there, too. So the client would log in again and again
// until the call's time is over. With this option, such a request is sent once more by a new client,
// which has no token.
func relogin(cfg clientv3.Config) grpc.DialOption {
	cfg.Username, cfg.Password = "", ""
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, send grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := send(ctx, method, req, reply, conn, opts...)
		if err == nil || method != authenticate || !isRefusal(err, rpctypes.ErrInvalidAuthToken) {
			return err
		}
		login, isLogin := req.(*pb.AuthenticateRequest)
		out, isReply := reply.(*pb.AuthenticateResponse)
		if !isLogin || !isReply {
			return err
		}
		client, err := clientv3.New(cfg)
		if err != nil {
			return err
		}
		defer client.Close()
		got, err := client.Authenticate(ctx, login.Name, login.Password)
		if err == nil {
			out.Header, out.Token = got.Header, got.Token
		}
		return err
	})
}
