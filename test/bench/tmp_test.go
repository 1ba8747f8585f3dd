package main
import ("testing";"context";"os";"strconv";"github.com/jibe-vnfm/jibe/test/process")
func TestTmp(t *testing.T){
 ctx:=context.Background()
 n,_:=strconv.Atoi(os.Getenv("N")); li,_:=strconv.Atoi(os.Getenv("L"))
 b:=&bench{options:options{binary:process.Binary(t)},tmp:os.Getenv("D")}
 j,err:=b.start(ctx,"d",map[string]string{"sim":simVIM}); if err!=nil{t.Fatal(err)}
 j.Stop()
 if err:=j.layOut(ctx,scaleLayouts()[li],n);err!=nil{t.Fatal(err)}
 t.Log(j.tree)
}
